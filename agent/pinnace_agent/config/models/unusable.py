"""Why a model that was named can't be used, for the user. Loaded only then. Runs no command."""

from typing import TYPE_CHECKING, Final

from pinnace_agent.config.models.builtin import usual_variable
from pinnace_agent.config.models.catalog import LeftOut
from pinnace_agent.config.models.patterns import ModelRequest, split_level
from pinnace_agent.config.models.routes import is_disabled
from pinnace_spec.nearest import did_you_mean

if TYPE_CHECKING:  # which loads this
    from pinnace_agent.config.models.models import ModelRegistry

_MISTAKE: Final = "is left out, since models.json describes it with a mistake"
_DISABLED: Final = "is disabled by the editor"


def why_unusable(registry: "ModelRegistry", provider: str, model_id: str) -> str:
    """Return why a model that is named in full is not usable."""
    providers = registry.providers()
    if provider not in providers:
        return f"there is no provider {provider}{did_you_mean(provider, providers)}"
    if (left_out := name_left_out(registry.left_out, ModelRequest(model_id, provider))) is not None:
        return f"{left_out[0].lower()}{left_out[1:]}"
    model = registry.find(provider, model_id)
    if model is None:
        models = [each["id"] for each in registry.models_of(provider)]
        return f"{provider} has no model {model_id}{did_you_mean(model_id, models)}"
    if (refusal := registry.refusal(model)) is not None:
        return refusal.text.rstrip(".")
    variable = usual_variable(provider)
    set_it = "" if variable is None else f"set {variable}, or "
    return f"{provider} has no key: {set_it}run pinnace auth login {provider}"


def name_left_out(left_out: LeftOut, request: ModelRequest) -> str | None:
    """Return what a request names of that which damaged descriptions or the client leave out, and why it is left out.

    It must not be taken for a part of another model's name, nor for a model that is not described.
    """
    pattern = request.pattern.strip().lower()
    named = (request.provider or "").strip().lower()
    for provider in left_out.providers:
        if named == provider.lower() or (not named and pattern.startswith(f"{provider.lower()}/")):
            return f'The provider "{provider}" {_DISABLED if is_disabled(provider) else _MISTAKE}'
    texts = {pattern, split_level(pattern)[0]}
    for provider, model_id in left_out.models:
        whole = f"{provider}/{model_id}".lower()
        if whole in texts or (named in ("", provider.lower()) and model_id.lower() in texts):
            return f"The model {provider}/{model_id} {_MISTAKE}"
    return None
