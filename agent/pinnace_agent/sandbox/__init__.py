"""The sandbox of commands: policy, mechanisms, detection. Imports `core`, `files`, `config`; `startup` composes it."""
