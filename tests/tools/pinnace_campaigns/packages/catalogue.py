"""Which packages are run: those with extensions that the registry of npm has of the most used ones, and more.

Source of the order: the numbers of installations on pi's page of packages, 2026-11-25.
"""

from typing import Final

PACKAGES: Final = (
    "pi-subagents",
    "pi-mcp-adapter",
    "pi-web-access",
    "@tintinweb/pi-subagents",
    "pi-autoresearch",
    "pi-lens",
    "pi-btw",
    "context-mode",
    "pi-prompt-template-model",
    "pi-markdown-preview",
    "pi-mermaid",
    "pi-aliases",
    "pi-simplify",
    "pi-schedule-prompt",
    "pi-fff",
    "pi-llm-wiki",
    "pi-ghostty",
    "pi-sandbox",
    "pi-provider-litellm",
    "pi-bar",
    "pi-chrome",
    "pi-image-paste",
    "pi-system-theme",
    "pi-sync-system-theme",
    "@aliou/pi-processes",
    "@baochunli/pi-collaborating-agents",
    "@capyup/pi-goal",
    "@gotgenes/pi-permission-system",
    "@juicesharp/rpiv-ask-user-question",
    "@juicesharp/rpiv-todo",
    "@kaiserlich-dev/pi-session-search",
    "@ogulcancelik/pi-ghostty-theme-sync",
    "@psg2/pi-transcript",
    "@samfp/pi-memory",
    "@tmustier/pi-ralph-wiggum",
)
