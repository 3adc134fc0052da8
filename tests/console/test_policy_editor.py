"""The editor of a context replaces all of its policies, so it must know each of them."""

from typing import get_args

from sluice.console.pages.contexts import POLICY_GROUPS
from sluice.contexts.policies import ActiveContentKind, Policies, Policy

FORMS = {form.name: form for group in POLICY_GROUPS.values() for form in group}
# What the template of the editor has a field of its own for.
IN_THE_TEMPLATE = {("image", "allow_animation")}


def test_the_editor_has_every_field_of_every_policy() -> None:
    wanted = set()
    for name, field in Policies.model_fields.items():
        (model,) = (each for each in get_args(field.annotation) if each is not type(None))
        assert issubclass(model, Policy)
        wanted |= {(name, each) for each in model.model_fields if each != "mode"}
    assert FORMS.keys() == Policies.model_fields.keys()
    assert {(name, field.name) for name, form in FORMS.items() for field in form.fields} == wanted - IN_THE_TEMPLATE


def test_the_editor_offers_every_kind_of_active_content() -> None:
    (kinds,) = FORMS["active_content"].fields
    assert set(kinds.choices) == set(get_args(ActiveContentKind))
