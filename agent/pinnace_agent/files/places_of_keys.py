"""Where programs of a user keep keys, passwords and what was typed: the one list, by the program that they belong to.

The sandbox hides these places, no file of a repository leads there and becomes a part of a prompt, and a write there is
always asked for. Added is what holds a key itself; the rest of a program's configuration stays readable, since programs
need it. Pure: knows names, not the disk.
"""

from collections.abc import Iterator, Mapping
from typing import Final

PLACES_OF_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "1Password": (".config/op", ".op"),
    "age and sops": (".config/age", ".config/sops"),
    "aider": (".aider.conf.yml",),
    "Alibaba Cloud": (".aliyun",),
    "AWS": (".aws",),
    "Azure": (".azure",),
    "Bitwarden": (".config/Bitwarden CLI", ".config/Bitwarden"),
    "boto and gsutil": (".boto", ".gsutil"),
    "browsers": (
        ".mozilla",
        ".thunderbird",
        ".config/google-chrome",
        ".config/chromium",
        ".config/BraveSoftware",
        ".config/microsoft-edge",
        ".config/vivaldi",
        ".config/opera",
        "snap/firefox",
        "Library/Application Support/Firefox",
        "Library/Application Support/Google/Chrome",
    ),
    "Bundler and RubyGems": (".bundle/config", ".gem/credentials", ".local/share/gem/credentials"),
    "Cargo": (".cargo/credentials", ".cargo/credentials.toml"),
    "Claude Code": (".claude/.credentials.json", ".claude.json"),
    "Codex": (".codex/auth.json",),
    "Composer": (".composer/auth.json", ".config/composer/auth.json"),
    "Conan": (".conan2/credentials.json",),
    "containers": (".docker", ".config/containers/auth.json"),
    "Continue": (".continue",),
    "Cursor": (".cursor", ".config/Cursor"),
    "databases": (".pgpass", ".my.cnf", ".mylogin.cnf", ".mongodb", ".config/mycli", ".config/pgcli"),
    "DigitalOcean": (".config/doctl",),
    "Fly.io": (".fly",),
    "Gemini": (".gemini",),
    "git": (".git-credentials", ".config/git/credentials"),
    "GitHub": (".config/gh", ".config/hub", ".config/github-copilot"),
    "GitLab": (".config/glab-cli", ".python-gitlab.cfg"),
    "GnuPG": (".gnupg",),
    "Google Cloud": (".config/gcloud",),
    "Goose": (".config/goose",),
    "Gradle": (".gradle/gradle.properties",),
    "Hetzner": (".config/hcloud",),
    "Heroku": (".config/heroku", ".local/share/heroku"),
    "Hugging Face": (".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface"),
    "Jupyter": (".jupyter", ".local/share/jupyter/runtime"),
    "Kaggle": (".kaggle", ".config/kaggle"),
    "keyrings": (".local/share/keyrings", ".local/share/kwalletd", "Library/Keychains"),
    "Kubernetes": (".kube", ".config/helm/registry"),
    "Linode": (".config/linode-cli",),
    "mail": (".msmtprc", ".config/msmtp", ".fetchmailrc", ".mutt", ".config/neomutt"),
    "Maven": (".m2/settings.xml", ".m2/settings-security.xml"),
    "Netlify": (".config/netlify", ".netlify"),
    "netrc": (".netrc", "_netrc"),
    "npm and Yarn": (".npmrc", ".yarnrc.yml", ".config/yarn"),
    "NuGet": (".nuget/NuGet/NuGet.Config", ".config/NuGet"),
    "opencode": (".local/share/opencode/auth.json", ".local/share/opencode/mcp-auth.json"),
    "Oracle Cloud": (".oci",),
    "pass and gopass": (".password-store", ".local/share/gopass", ".config/gopass"),
    "PyPI": (".pypirc", ".config/pypoetry/auth.toml", ".local/share/uv/credentials"),
    "Pulumi": (".pulumi/credentials.json",),
    "Qwen Code": (".qwen",),
    "rclone": (".config/rclone", ".rclone.conf"),
    "s3cmd": (".s3cfg",),
    "SSH": (".ssh", ".putty"),
    "Subversion": (".subversion/auth",),
    "Terraform": (".terraform.d", ".terraformrc"),
    "Vault": (".vault-token",),
    "Vercel": (".local/share/com.vercel.cli", ".vercel"),
    "VPN": (".config/wireguard", ".openvpn"),
    "wallets": (".bitcoin", ".ethereum", ".electrum", ".config/solana", ".monero"),
    "Wrangler": (".wrangler", ".config/.wrangler"),
    "Zed": (".config/zed", ".local/share/zed"),
}
"""Files and folders below the home folder, by program."""

KEPT_WHOLE: Final = (".claude", ".codex")
"""Folders of other agents below the home folder: their sessions are transcripts."""

HISTORIES: Final = (
    ".bash_history",
    ".zsh_history",
    ".ash_history",
    ".sh_history",
    ".local/share/fish/fish_history",
    ".python_history",
    ".node_repl_history",
    ".irb_history",
    ".psql_history",
    ".mysql_history",
    ".mariadb_history",
    ".sqlite_history",
    ".rediscli_history",
    ".dbshell",
    ".mongosh",
    ".lesshst",
    ".viminfo",
    ".local/state/nvim/shada",
    ".wget-hsts",
)
"""What was typed, below the home folder: it holds passwords, too."""

_NAMED_BY: Final[Mapping[str, str]] = {
    "AWS_CONFIG_FILE": "",
    "AWS_SHARED_CREDENTIALS_FILE": "",
    "AZURE_CONFIG_DIR": "",
    "BOTO_CONFIG": "",
    "CARGO_HOME": "credentials.toml",
    "CLOUDSDK_CONFIG": "",
    "DOCKER_CONFIG": "",
    "GH_CONFIG_DIR": "",
    "GNUPGHOME": "",
    "GOOGLE_APPLICATION_CREDENTIALS": "",
    "HF_TOKEN_PATH": "",
    "HISTFILE": "",
    "KUBECONFIG": "",
    "NETRC": "",
    "NPM_CONFIG_USERCONFIG": "",
    "PASSWORD_STORE_DIR": "",
    "PGPASSFILE": "",
    "PIP_CONFIG_FILE": "",
    "REGISTRY_AUTH_FILE": "",
    "TF_CLI_CONFIG_FILE": "",
}
_MOVED_BY: Final = {"XDG_CONFIG_HOME": ".config/", "XDG_DATA_HOME": ".local/share/", "XDG_CACHE_HOME": ".cache/"}


def keys_at_home() -> tuple[str, ...]:
    """Return all places of keys below the home folder."""
    return tuple(path for paths in PLACES_OF_KEYS.values() for path in paths)


def keys_named_by(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the places of keys that variables of the environment name: absolute paths, which may be anything."""
    for variable, name in _NAMED_BY.items():
        for value in env.get(variable, "").split(":"):
            if value.startswith("/"):
                yield f"{value.rstrip('/')}/{name}".rstrip("/")
    for variable, usual in _MOVED_BY.items():
        folder = env.get(variable, "")
        if folder.startswith("/"):
            yield from (
                f"{folder.rstrip('/')}/{path.removeprefix(usual)}"
                for path in (*keys_at_home(), *HISTORIES)
                if path.startswith(usual)
            )
