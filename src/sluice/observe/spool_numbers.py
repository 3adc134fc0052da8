"""What the spool holds and how much room its disk has, as numbers for Prometheus. How uploads are spooled is in `uploads.spool`."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from sluice.observe.engine_numbers import Number

SPOOL_BYTES: Final = Number("sluice_spool_bytes", ("where",), "Bytes of uploads that are being judged, in `memory` or on `disk`.")
SPOOL_FREE: Final = Number("sluice_spool_free_bytes", (), "Free bytes of the spool's file system.")
SPOOL_SIZE: Final = Number("sluice_spool_size_bytes", (), "All bytes of the spool's file system.")
NUMBERS: Final = (SPOOL_BYTES, SPOOL_FREE, SPOOL_SIZE)


def families(folder: Path, in_memory: int, on_disk: int) -> Iterator[Metric]:
    """Answer the families of the spool in `folder`, which holds so many bytes; one without a folder tells no room."""
    used = GaugeMetricFamily(SPOOL_BYTES.name, SPOOL_BYTES.help, labels=SPOOL_BYTES.labels)
    used.add_metric(("memory",), in_memory)
    used.add_metric(("disk",), on_disk)
    yield used
    try:
        room = shutil.disk_usage(folder)
    except OSError:
        return
    yield GaugeMetricFamily(SPOOL_FREE.name, SPOOL_FREE.help, room.free)
    yield GaugeMetricFamily(SPOOL_SIZE.name, SPOOL_SIZE.help, room.total)
