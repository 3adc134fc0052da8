"""A form whose files go through Sluice before the application sees them: `ClaimForm` and `send` of a Django project."""

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path

from sluice_client import FileRejected, Sluice, SluiceError

sluice = Sluice()  # reads SLUICE_URL and SLUICE_API_KEY


class ClaimForm(forms.Form):
    """The form; Sluice judges the file."""

    file = forms.FileField()


def send(request: HttpRequest) -> HttpResponse:
    """Show the form; store its file, or show the sentence for the sender beside the field."""
    form = ClaimForm(request.POST or None, request.FILES or None)
    if request.method != "POST" or not form.is_valid():
        return render(request, "claim.html", {"form": form}, status=400 if form.errors else 200)
    file = form.cleaned_data["file"]
    try:
        stored = sluice.files.upload(file.file, filename=file.name, context="claims")
    except FileRejected as rejection:
        form.add_error("file", rejection.report.message if rejection.report else rejection.message)
        return render(request, "claim.html", {"form": form}, status=400)
    except SluiceError:
        form.add_error("file", "Files cannot be received now. Please try again in a few minutes.")
        return render(request, "claim.html", {"form": form}, status=503)
    # `stored.file_id` is what the application keeps.
    return render(request, "claim.html", {"form": ClaimForm(), "stored": stored}, status=201)


urlpatterns = [path("", send)]
