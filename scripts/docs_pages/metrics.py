"""`docs/metrics.md`: every metric of `/metrics`. The metrics themselves are declared in `sluice.observe`."""

from collections.abc import Iterator, Sequence

from prometheus_client.metrics import MetricWrapperBase

from docs_pages.markdown import made_from, page, table
from sluice.observe import metrics, scrape
from sluice.observe.scrape import MetricSpec

_INTRO = """
# Metrics

`GET /metrics` is in the text format of Prometheus: `sluice serve` has it at its address, with [its
processes](operations.md#several-processes) added up, `sluice work` at `SLUICE_WORKER_PORT`. Several servers and workers
are several targets; [operations](operations.md#watching) describes who may read it and how it is scraped.

No label names a tenant, a context, a file or a caller. Each label has a short list of values that the code knows, so
the number of series does not grow with use.
"""

_COUNTED = """
## Counted where it happens

The library adds its own: `process_*` (CPU seconds, memory, descriptors, start) and `python_*`.
"""

_LOOKED_UP = """
## Read when it is scraped

Values that an engine does not report are omitted: a local store has free bytes, a bucket has none.
"""

_MEANING = """
## Reading them

- Uploads by outcome: `sum by (outcome, reason) (rate(sluice_uploads_total[5m]))`. The [reason codes](reasons.md) are
  those of the API.
- Where the time goes (`examine` and `scan` overlap):

  ```promql
  sum by (stage) (rate(sluice_stage_seconds_sum[5m]))
    / on () group_left () sum (rate(sluice_stage_seconds_count{stage="upload"}[5m]))
  ```

- `status="499"` is a client that disconnected before the reply; `route="unknown"` a path without a route.
"""

_Row = tuple[str, str, str, str]


def metrics_page() -> str:
    """Return the page."""
    return page(
        made_from("server/src/sluice/observe"),
        _INTRO,
        _COUNTED,
        _table(_counted()),
        _LOOKED_UP,
        _table(_looked_up()),
        _MEANING,
    )


def _table(rows: Iterator[_Row]) -> str:
    return table(("Metric", "Type", "Labels", "Meaning"), sorted(rows))


def _counted() -> Iterator[_Row]:
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            name = f"{family.name}_total" if family.type == "counter" else family.name
            names = metric._labelnames  # noqa: SLF001  (the library tells them nowhere else)
            yield f"`{name}`", family.type, _labels(names), family.documentation


def _looked_up() -> Iterator[_Row]:
    for number in scrape.SPECS:
        yield f"`{number.name}`", _type(number), _labels(number.labels), number.help


def _type(number: MetricSpec) -> str:
    return "counter" if number.name.endswith("_total") else "gauge"


def _labels(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
