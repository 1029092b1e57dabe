"""A Slurm of one node, this machine, without services: munged, slurmctld and slurmd from a scratch folder."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.command_line import wait_for

PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])  # Debian's daemons are not on a user's path
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "setpriv")
MISSING = ", ".join(name for name in PROGRAMS if not shutil.which(name, path=PATH))
SKIP_REASON = MISSING and f"no {MISSING} here: on Debian, apt-get install slurmctld slurmd slurm-client munge"

# slurm.conf(5). `cred_expire` is also how long a requeued job waits before it starts again; `config_overrides` allows
# more CPUs than there are.
CONFIGURATION = """
ClusterName=one_node
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
EnforcePartLimits=ALL
JobRequeue=1
KillWait=2
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000000
PartitionName=first Nodes={host} Default=YES
PartitionName=second Nodes={host} MaxTime=60
"""


@contextmanager
def one_node_slurm(folder: Path, cpus: int = 2) -> Iterator[dict[str, str]]:
    """Start it in an empty folder with a short path, yield what its users' environment needs; end it with its jobs."""
    host = socket.gethostname().split(".")[0]
    environment = {"SLURM_CONF": str(_configure(folder, host, cpus)), "PATH": PATH}
    files = [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")]
    commands = {
        "munged": ["--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/key", *files],
        "slurmctld": ["-D"],
        "slurmd": ["-D", "-N", host],
    }
    with ExitStack() as stack:
        stack.callback(_end_all_of, environment)
        for name, options in commands.items():
            stack.enter_context(_daemon(folder / f"{name}.out", [name, *options], environment))
        wait_for(lambda: _is_idle(environment), seconds=30)
        yield environment


def _configure(folder: Path, host: str, cpus: int) -> Path:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "key").touch(mode=0o600)
    (folder / "key").write_bytes(secrets.token_bytes(128))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # unused; v2 would need systemd
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        ports = dict(zip(("controller_port", "node_port"), (each.getsockname()[1] for each in sockets), strict=True))
    path = folder / "slurm.conf"
    path.write_text(CONFIGURATION.format(host=host, user=os.getuid(), folder=folder, cpus=cpus, **ports))
    return path


@contextmanager
def _daemon(log: Path, command: list[str], environment: dict[str, str]) -> Iterator[None]:
    """One that the kernel ends with this process, should nothing here get to do that."""
    command = ["setpriv", "--pdeathsig", "KILL", *command]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def _is_idle(environment: dict[str, str]) -> bool:
    command = ["sinfo", "--noheader", "--format=%T"]
    return b"idle" in subprocess.run(command, env={**os.environ, **environment}, capture_output=True).stdout


def _end_all_of(environment: dict[str, str]) -> None:
    """Kill what still runs with this configuration: jobs, and the slurmstepd of each.

    From /proc itself: slurmstepd writes its title over the start of its environment, where psutil stops reading.
    """
    setting = f"SLURM_CONF={environment['SLURM_CONF']}".encode()

    def killed() -> bool:
        found = False
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if setting in path.read_bytes().split(b"\0"):
                    found = True
                    os.kill(int(path.parent.name), signal.SIGKILL)
        return found

    wait_for(lambda: not killed(), seconds=30)
