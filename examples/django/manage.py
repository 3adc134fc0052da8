"""The smallest project around `claims.py`, to try it."""

import sys
from pathlib import Path

from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.management.utils import get_random_secret_key

settings.configure(
    SECRET_KEY=get_random_secret_key(),  # a new one at each start: a project has its own
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF="claims",
    MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [Path(__file__).parent]}],
)
execute_from_command_line(sys.argv)
