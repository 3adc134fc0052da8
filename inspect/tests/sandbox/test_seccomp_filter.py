"""The seccomp filter for both architectures, run by a small interpreter, so that any machine can test both."""

import errno
import struct

from sluice_inspect.child import seccomp
from tests.rows import each_row

_OWN_PID = 4321
_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ALLOW = "allow"
_KILL = "kill"

NUMBERS = {
    # call: (x86_64, aarch64), from the tables of the kernel
    "read": (0, 63), "write": (1, 64), "pread64": (17, 67), "mmap": (9, 222), "recvmsg": (47, 212),
    "exit_group": (231, 94),
    "openat": (257, 56), "openat2": (437, 437), "socket": (41, 198), "connect": (42, 203), "socketpair": (53, 199),
    "sendmsg": (46, 211), "sendto": (44, 206), "bind": (49, 200), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117),
    "kill": (62, 129), "tkill": (200, 130), "prctl": (157, 167), "unlinkat": (263, 35), "mkdirat": (258, 34),
    "renameat2": (316, 276),
    "memfd_create": (319, 279), "io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241),
    "process_vm_readv": (310, 270), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40), "keyctl": (250, 219), "shmget": (29, 194), "userfaultfd": (323, 282), "seccomp": (317, 277),
    "setpriority": (141, 140), "sched_setaffinity": (203, 122), "ftruncate": (77, 46), "getdents64": (217, 61),
    "readlinkat": (267, 78),
    "clone": (56, 220), "clone3": (435, 435), "ioctl": (16, 29),
    "fcntl": (72, 25), "prlimit64": (302, 261), "tgkill": (234, 131), "newfstatat": (262, 79),
}  # fmt: skip
ALLOWED = ["read", "write", "pread64", "mmap", "recvmsg", "exit_group"]
BY_ARGUMENT = {"clone", "clone3", "ioctl", "fcntl", "prlimit64", "tgkill", "newfstatat"}
REFUSED = [name for name in NUMBERS if name not in BY_ARGUMENT | set(ALLOWED)]

EACH_MACHINE = each_row("machine", list(_ARCH))


def _decide(machine: str, number: int, arguments: tuple[int, ...] = (), arch: int | None = None) -> str:
    """Run the filter as the kernel does. Return `allow`, `kill` or the name of an error."""
    data = struct.pack("=IIQ6Q", number, arch or _ARCH[machine], 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    steps = list(struct.iter_unpack("=HBBI", seccomp.program(_OWN_PID, machine)))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif code == 0x15:
            at += if_true if accumulator == value else if_false
        elif code == 0x45:
            at += if_true if accumulator & value else if_false
        else:
            assert code == 0x06
            action = value & 0xFFFF0000
            return {0x7FFF0000: _ALLOW, 0x80000000: _KILL}.get(action) or errno.errorcode[value & 0xFFFF]


def _number(name: str, machine: str) -> int:
    return NUMBERS[name][list(_ARCH).index(machine)]


@EACH_MACHINE
@each_row(
    "name, decision",
    [(name, _ALLOW) for name in ALLOWED]
    + [(name, "EPERM") for name in REFUSED]
    + [(name, "EAGAIN") for name in ("clone", "clone3")],
)
def test_filter_allows_reading_and_computing_only(machine: str, name: str, decision: str) -> None:
    assert _decide(machine, _number(name, machine)) == decision


@each_row("number, decision", [(57, "EAGAIN"), (58, "EAGAIN"), (0x40000000 | 1, "EPERM")], ids=["fork", "vfork", "x32"])
def test_calls_of_x86_64_only_are_refused(number: int, decision: str) -> None:
    assert _decide("x86_64", number) == decision


@EACH_MACHINE
@each_row(
    ("name", "arguments", "decision"),
    [
        ("ioctl", (0, 0x5412), "ENOTTY"),
        ("fcntl", (3, 3), "allow"),
        ("fcntl", (3, 8), "EPERM"),
        ("fcntl", (3, 4), "EPERM"),
        ("prlimit64", (0, 9), "allow"),
        ("prlimit64", (1, 9), "EPERM"),
        ("tgkill", (_OWN_PID, _OWN_PID, 6), "allow"),
        ("tgkill", (1, 1, 9), "EPERM"),
        ("newfstatat", (3, 0, 0, 0x1000), "allow"),
        ("newfstatat", (3, 0, 0, 0), "EPERM"),
    ],
)
def test_filter_decides_by_argument(machine: str, name: str, arguments: tuple[int, ...], decision: str) -> None:
    assert _decide(machine, _number(name, machine), arguments) == decision


@EACH_MACHINE
def test_call_of_another_architecture_kills_process(machine: str) -> None:
    assert _decide(machine, 0, arch=0x40000003) == _KILL
