"""settings.json of older releases, as today's: what was renamed since then.

Pure; never loses a key that it does not know. Done with what was read, and before a change is written, so that an
old name can't come back over a new one. pi does the same.
"""

from pinnace_agent.resources.relaxed_json import JsonObject, is_list, is_object


def migrated(content: JsonObject) -> JsonObject:
    """Return settings under the names of today. What is there under both names is as the new one says."""
    content = dict(content)
    if "queueMode" in content:
        _rename(content, "queueMode", "steeringMode")
    if isinstance(content.get("websockets"), bool):
        websockets = content.pop("websockets")
        content.setdefault("transport", "websocket" if websockets else "sse")
    _migrate_skills(content)
    _migrate_retry(content)
    return content


def _rename(content: JsonObject, old: str, new: str) -> None:
    value = content.pop(old)
    if content.get(new) is None:
        content[new] = value


def _migrate_skills(content: JsonObject) -> None:
    skills = content.get("skills")
    if not is_object(skills):
        return
    if "enableSkillCommands" in skills:
        content.setdefault("enableSkillCommands", skills["enableSkillCommands"])
    folders = skills.get("customDirectories")
    if is_list(folders) and folders:
        content["skills"] = folders
    else:
        del content["skills"]


def _migrate_retry(content: JsonObject) -> None:
    retry = content.get("retry")
    if not is_object(retry) or "maxDelayMs" not in retry:
        return
    provider = retry.get("provider", {})
    if not is_object(provider):
        return
    retry = dict(retry)
    provider = {"maxRetryDelayMs": retry.pop("maxDelayMs"), **provider}
    content["retry"] = {**retry, "provider": provider}
