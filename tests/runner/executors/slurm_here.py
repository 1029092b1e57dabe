"""A Slurm of two nodes, both this machine, without services: munged, slurmctld and two slurmd from a scratch folder."""

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
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/pgid
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
EnforcePartLimits=ALL
KillWait=2
ReturnToService=2
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={port_of_one} CPUs=1 RealMemory=1000000
NodeName=two NodeHostname={host} NodeAddr=127.0.0.1 Port={port_of_two} CPUs=1 RealMemory=1000000
PartitionName=first Nodes=one,two Default=YES
PartitionName=second Nodes=one,two MaxTime=60
"""


@contextmanager
def slurm_here(folder: Path) -> Iterator[dict[str, str]]:
    """Start it in an empty folder with a short path, yield what its users' environment needs; end it with its jobs."""
    host = socket.gethostname().split(".")[0]
    environment = {"SLURM_CONF": str(_configure(folder, host)), "PATH": PATH}
    files = [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")]
    commands = [
        ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/key", *files],
        ["slurmctld", "-D"],
        ["slurmd", "-D", "-N", "one"],
        ["slurmd", "-D", "-N", "two"],
    ]
    with ExitStack() as stack:
        stack.callback(_end_all_of, environment)
        for number, command in enumerate(commands):
            stack.enter_context(_daemon(folder / f"{number}.out", command, environment))
        wait_for(lambda: _idle_nodes(environment) == {"one", "two"}, seconds=30)
        yield environment


def _configure(folder: Path, host: str) -> Path:
    for name in ("state", "spool-one", "spool-two"):
        (folder / name).mkdir()
    (folder / "key").touch(mode=0o600)
    (folder / "key").write_bytes(secrets.token_bytes(128))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # unused; v2 would need systemd
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        names = ("controller_port", "port_of_one", "port_of_two")
        ports = dict(zip(names, (each.getsockname()[1] for each in sockets), strict=True))
    path = folder / "slurm.conf"
    path.write_text(CONFIGURATION.format(host=host, user=os.getuid(), folder=folder, **ports))
    return path


@contextmanager
def _daemon(log: Path, command: list[str], environment: dict[str, str]) -> Iterator[None]:
    """One that the kernel ends with this process, should nothing here get to do that."""
    command = ["setpriv", "--pdeathsig", "KILL", *command]
    with log.open("wb") as output:
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, env={**os.environ, **environment}, **streams)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def _idle_nodes(environment: dict[str, str]) -> set[str]:
    command = ["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"]
    found = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    return set(found.stdout.split())


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
