"""The first process of a guest: guest.py SPEC, in namespaces of its own.

It does what cloud-init does in an image of a distribution: host name, accounts, host keys (told on
the console), the user's key and user-data (a script, or the commonest keys of a cloud-config). Then
it becomes sshd. The machine's own files can be read, not written.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

USER = "debian"
FILES = Path("/run/lab")
NOBODY = 65534
ACCOUNTS = {
    "passwd": f"root:x:0:0::/root:/bin/sh\n{USER}:x:1000:1000::/home/{USER}:/bin/sh\n"
    f"sshd:x:{NOBODY}:{NOBODY}::/run/sshd:/bin/false\n",
    "group": f"root:x:0:\n{USER}:x:1000:\nnogroup:x:{NOBODY}:\n",
    "shadow": f"root:*:::::::\n{USER}:*:::::::\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
}
SSHD = f"""\
HostKey {FILES}/ssh_host_ed25519_key
AuthenticationMethods publickey
PermitRootLogin no
UsePAM no
PidFile none
PrintMotd no
PrintLastLog no
UseDNS no
MaxSessions 256
MaxStartups 256
Subsystem sftp internal-sftp
"""


def main() -> None:
    """Boot."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    say(f"Linux booting {spec['hostname']} ({spec['id']})")
    socket.sethostname(spec["hostname"])
    if spec["stuck"]:
        say("Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)")
        while True:
            signal.pause()
    mount_own()
    config = cloud_config(spec["user_data"])
    write_keys(spec, config)
    start_user_data(spec["user_data"], config)
    say(f"Cloud-init finished at {time.strftime('%a, %d %b %Y %H:%M:%S +0000', time.gmtime())}")
    say(f"{spec['hostname']} login:")
    os.chdir("/")
    sshd = "/usr/sbin/sshd"
    os.execve(sshd, [sshd, "-D", "-E", f"{FILES}/sshd.log", "-f", f"{FILES}/config"], ENVIRONMENT)


ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def say(text: str) -> None:
    """Write a line to the console."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def mount_own() -> None:
    """Have memory wherever something is written, and all else read-only."""
    mount("--options", "remount,bind,ro", "/")
    for folder in ("/run", "/tmp", "/var/tmp", "/home", "/dev/shm"):  # noqa: S108 - mounted here
        mode = "0755" if folder in ("/run", "/home") else "1777"
        mount("-t", "tmpfs", "-o", f"nosuid,nodev,mode={mode}", "tmpfs", folder)
    FILES.mkdir(mode=0o755)
    Path("/run/sshd").mkdir(mode=0o755)
    home = Path("/home", USER)
    home.mkdir(mode=0o700)
    os.chown(home, 1000, 1000)
    for name, text in ACCOUNTS.items():
        own = FILES / name
        own.write_text(text)
        mount("--bind", str(own), f"/etc/{name}")


def mount(*arguments: str) -> None:
    """Run mount. Raises CalledProcessError."""
    subprocess.run(["/usr/bin/mount", *arguments], check=True)


def cloud_config(user_data: str) -> dict[str, Any]:
    """Return the cloud-config, empty when it is none."""
    if not user_data.startswith("#cloud-config"):
        return {}
    config = yaml.safe_load(user_data) or {}
    return config if isinstance(config, dict) else {}


def write_keys(spec: dict[str, Any], config: dict[str, Any]) -> None:
    """Write the host's key, given or made, tell it, and let the users' keys in."""
    key = FILES / "ssh_host_ed25519_key"
    given = config.get("ssh_keys", {})
    if "ed25519_private" in given:
        key.touch(mode=0o600)
        key.write_text(given["ed25519_private"].rstrip() + "\n")
        public = subprocess.run(
            ["/usr/bin/ssh-keygen", "-y", "-f", str(key)], capture_output=True, check=True
        ).stdout
        key.with_suffix(".pub").write_bytes(public)
    else:
        make = ["/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run([*make, "-C", f"root@{spec['hostname']}"], check=True)
    tell_keys(key.with_suffix(".pub"))
    users = [user for user in config.get("users", []) if isinstance(user, dict)]
    keys = [*spec["keys"], *config.get("ssh_authorized_keys", [])]
    keys += [key for user in users for key in user.get("ssh_authorized_keys", [])]
    (FILES / "authorized_keys").write_text("\n".join(keys) + "\n")
    (FILES / "config").write_text(f"{SSHD}AuthorizedKeysFile {FILES}/authorized_keys\n")


def tell_keys(public: Path) -> None:
    """Print the host keys as cloud-init's write-ssh-key-fingerprints does."""
    finger = ["/usr/bin/ssh-keygen", "-l", "-f", str(public)]
    print_ = subprocess.run(finger, capture_output=True, text=True, check=True).stdout.strip()
    stamp = f"<14>{time.strftime('%b %d %H:%M:%S')} cloud-init:"
    line = "#" * 61
    say(f"{stamp} {line}\n{stamp} -----BEGIN SSH HOST KEY FINGERPRINTS-----\n{stamp} {print_}")
    say(f"{stamp} -----END SSH HOST KEY FINGERPRINTS-----\n{stamp} {line}")
    say("-----BEGIN SSH HOST KEY KEYS-----")
    say(public.read_text().strip())
    say("-----END SSH HOST KEY KEYS-----")


def start_user_data(user_data: str, config: dict[str, Any]) -> None:
    """Write the wanted files, run the wanted commands; an error is told on the console."""
    for file in config.get("write_files", []):
        path = Path(file["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.get("content", ""))
        path.chmod(int(str(file.get("permissions", "0644")), 8))
    commands = [*config.get("bootcmd", []), *config.get("runcmd", [])]
    if user_data.startswith("#!"):
        script = Path("/run/lab/user-data")
        script.write_text(user_data)
        script.chmod(0o700)
        commands = [[str(script)]]
    for command in commands:
        argv = command if isinstance(command, list) else ["/bin/sh", "-c", command]
        if str(argv[0]) == "shutdown":
            say(f"it will power off: {argv}")  # and the machine that it runs on will not
            continue
        done = subprocess.run([str(word) for word in argv], env=ENVIRONMENT, check=False)
        if done.returncode != 0:
            say(f"cloud-init: {argv} failed with {done.returncode}")


main()
