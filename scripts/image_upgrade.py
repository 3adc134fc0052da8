"""Upgrade from the image of an earlier commit: `python scripts/image_upgrade.py [COMMIT]`, the commit before by default.

That commit's image serves on a volume, makes its tenant and key, and stores files; then the image of this tree serves
on the same volume. The files must download with the same bytes, the key must work, and an upload must be accepted; then
the earlier image must still serve what both have stored, as a release can be rolled back by one. If the commit has
another schema, from before 0.1.0, this tree's image must refuse to start and name what the database lacks. Skipped by
name where the tools are missing.
"""

import shutil
import subprocess
import sys

from containers import (
    FOLDER,
    ROOT,
    Service,
    bases,
    build,
    missing_tools,
    new_volume,
    run,
    running,
    tools_environment,
    wait_until_healthy,
)


def main() -> int:
    """Build both images and upgrade; return the exit code."""
    if missing := missing_tools():
        print(f"skipped: the upgrade needs {', '.join(missing)} (Debian packages of these names)")
        return 0
    environment = tools_environment()
    commit = run(
        "git", "rev-parse", "--verify", sys.argv[1] if sys.argv[1:] else "HEAD~1", environment=environment
    ).strip()
    folder = FOLDER / "before"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "--extract", "--directory", folder], input=archive, check=True)
    images = bases(environment)
    before, after = "localhost/sluice-before", "localhost/sluice-full"
    build(before, images, environment, folder=folder, commit=commit, media=True)
    build(after, images, environment, media=True)
    shutil.rmtree(folder)
    has_schema = ["git", "diff", "--quiet", commit, "--", "server/tests/db/first_schema.json"]
    is_same = subprocess.run(has_schema, cwd=ROOT, check=False).returncode == 0
    kept: dict[str, bytes] = {}
    with new_volume(environment) as volume:
        for number, tag in enumerate((before, after, before) if is_same else (before,)):
            with running(tag, volume, environment) as name:
                seconds = wait_until_healthy(name, environment)
                if not number:
                    key = run("podman", "exec", name, "cat", "/data/keys/first-key", environment=environment).strip()
                    service = Service(key)
                    service.create_context()
                for file_id, content in kept.items():
                    service.require_kept(file_id, content)
                old = len(kept)
                for each in range(3):
                    content = f"File {each} of {tag}, {number}. ".encode() * 100**each
                    kept[service.accepted(content)] = content
                service.require_refused_virus()
                print(f"{tag}: healthy after {seconds:.1f} s, {old} files as they were, {len(kept) - old} accepted")
        if is_same:
            print(f"upgraded from {commit[:12]} and rolled back by one, on the same volume")
            return 0
        options = ["--rm", "--network", "host", "--read-only", "--tmpfs", "/tmp", "--volume", f"{volume}:/data:U"]  # noqa: S108
        command = ["podman", "run", *options, "--env", "SLUICE_SCANNER=builtin", after]
        refused = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        sentence = refused.stderr.strip().rpartition("\n")[2]
        if not refused.returncode or "The database lacks" not in sentence:
            print(f"the schema of {commit[:12]} is not refused: {sentence}", file=sys.stderr)
            return 1
        print(f"{commit[:12]} has another schema, which is refused: {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
