"""Storage buckets: the list, a new one, and what can be changed of one."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from sluice.api.schemas.buckets import AnyNewBucket, UpdateBucket
from sluice.buckets import Bucket
from sluice.console.visit import Visit, problems_of, redirect
from sluice.errors import NotFound, SluiceError
from sluice.kit.paging import PageRequest
from sluice.storage import PROVIDERS, S3Settings

# The steps of a probe in their order, and what each one proves.
_STEPS: Final = {
    "endpoint": "The endpoint is allowed",
    "credentials": "The credentials can be opened on this host",
    "lookup": "The store answers, and takes the credentials for this bucket",
    "write": "An object is written",
    "read": "It is read, with the same bytes",
    "delete": "It is deleted",
    "deleted": "It is gone",
}
_CREDENTIALS: Final = tuple(
    dict.fromkeys(field.name for provider in PROVIDERS.values() for field in provider.fields if field.is_credential)
)
_NEW_BUCKET: Final[TypeAdapter[AnyNewBucket]] = TypeAdapter(AnyNewBucket)


async def show_list(visit: Visit) -> Response:
    """Show all buckets, and how many contexts each takes."""
    contexts = (await visit.services.contexts.list_page(visit.tenant_id, None, PageRequest(1, 100))).items
    buckets = await visit.services.buckets.list_all(visit.tenant_id)
    bound = {
        bucket.config_id: [context for context in contexts if context.storage_config_id == bucket.config_id]
        for bucket in buckets
    }
    return visit.page("buckets/list.html", buckets=buckets, bound=bound)


async def show_new(visit: Visit) -> Response:
    """Show the form for a new bucket."""
    return _form(visit)


def _form(visit: Visit, errors: Sequence[str] = ()) -> Response:
    form = {name: value for name, value in visit.form.items() if name not in _CREDENTIALS}
    provider = _provider(visit)
    return visit.page(
        "buckets/new.html",
        status=422 if errors else 200,
        form=form,
        errors=errors,
        provider=provider,
        providers=PROVIDERS,
        fields=PROVIDERS[provider].fields,
    )


def _provider(visit: Visit) -> str:
    """Return the provider that the form is for: S3 unless another one is named."""
    named = visit.sent("provider") or visit.request.query_params.get("provider", "")
    return named if named in PROVIDERS else S3Settings.provider


async def add(visit: Visit) -> Response:
    """Try a bucket out and add it."""
    provider = _provider(visit)
    names = [field.name for field in PROVIDERS[provider].fields]
    body: dict[str, Any] = {name: visit.sent(name) for name in ("name", "default_bucket", "base_path")}
    body |= {name: visit.sent(name) for name in names if visit.sent(name)}
    body |= {"provider": provider, "set_as_default": bool(visit.sent("set_as_default"))}
    try:
        wanted = _NEW_BUCKET.validate_python(body)
        bucket = await visit.services.buckets.add(visit.by("bucket.added"), wanted.new_bucket())
    except ValidationError as fault:
        return _form(visit, problems_of(fault))
    except SluiceError as error:
        return _form(visit, error.errors)
    return redirect(f"/console/buckets/{bucket.config_id}")


async def show(visit: Visit) -> Response:
    """Show one bucket."""
    return await _show(visit)


async def _show(visit: Visit, errors: Sequence[str] = ()) -> Response:
    bucket = await _bucket(visit)
    contexts = (await visit.services.contexts.list_page(visit.tenant_id, None, PageRequest(1, 100))).items
    bound = [context for context in contexts if context.storage_config_id == bucket.config_id]
    return visit.page(
        "buckets/show.html",
        status=409 if errors else 200,
        bucket=bucket,
        bound=bound,
        labels={field.name: field.label for field in bucket.settings.fields},
        steps=_STEPS,
        made={} if bucket.last_probe is None else {step.name: step for step in bucket.last_probe.steps},
        form={name: value for name, value in visit.form.items() if name not in _CREDENTIALS},
        errors=errors,
    )


async def _bucket(visit: Visit) -> Bucket:
    return await visit.services.buckets.get(visit.tenant_id, visit.request.path_params["config_id"])


async def make_default(visit: Visit) -> Response:
    """Make a bucket the default of the tenant."""
    bucket = await _bucket(visit)
    try:
        await visit.services.buckets.set_default(visit.by("bucket.made_default"), bucket.config_id)
    except NotFound:
        raise
    except SluiceError as error:
        return await _show(visit, error.errors)
    return redirect(f"/console/buckets/{bucket.config_id}")


async def probe(visit: Visit) -> Response:
    """Try a bucket out, step by step."""
    config_id = visit.request.path_params["config_id"]
    await visit.services.buckets.probe(visit.by("bucket.probed"), config_id)
    return redirect(f"/console/buckets/{config_id}?notice=probed")


async def change(visit: Visit) -> Response:
    """Change name, state or credentials of a bucket."""
    bucket = await _bucket(visit)
    body: dict[str, Any] = {"name": visit.sent("name")} if visit.sent("name") else {}
    if visit.sent("is_active"):
        body["is_active"] = visit.sent("is_active") == "yes"
    body |= {name: visit.sent(name) for name in _CREDENTIALS if visit.sent(name)}
    try:
        wanted = UpdateBucket.model_validate(body)
        await visit.services.buckets.change(visit.by("bucket.changed"), bucket.config_id, wanted.changes())
    except ValidationError as fault:
        return await _show(visit, problems_of(fault))
    except NotFound:
        raise
    except SluiceError as error:
        return await _show(visit, error.errors)
    return redirect(f"/console/buckets/{bucket.config_id}")


async def delete(visit: Visit) -> Response:
    """Delete a bucket and its credentials, never its objects; before that, ask."""
    bucket = await _bucket(visit)
    if visit.sent("sure") != "yes":
        return visit.page("buckets/delete.html", bucket=bucket)
    try:
        await visit.services.buckets.delete(visit.by("bucket.deleted"), bucket.config_id)
    except NotFound:
        raise
    except SluiceError as error:
        return await _show(visit, (error.message, *error.errors))
    return redirect("/console/buckets")
