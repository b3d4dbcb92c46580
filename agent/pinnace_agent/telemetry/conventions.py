"""The names and values of the semantic conventions for generative AI, and how this program's are written in them. Pure.

The conventions are those of OpenTelemetry's own repository (semantic-conventions-genai); attributes that they do not
have begin with `pinnace.`.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from pinnace_spec.records.messages import AssistantMessage, Model, StopReason, Usage

Attributes = dict[str, str | int | float | bool | list[str]]

OPERATION: Final = "gen_ai.operation.name"
CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_WORKFLOW: Final = "invoke_workflow"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
CONVERSATION: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

# Of this program's own.
COMPACTION_REASON: Final = "pinnace.compaction.reason"
RETRY_ATTEMPT: Final = "pinnace.retry.attempt"
THINKING_LEVEL: Final = "pinnace.request.thinking_level"
OUTCOME: Final = "pinnace.outcome"
LIMIT: Final = "pinnace.limit"
COST: Final = "pinnace.usage.cost"
BATCH_TASKS: Final = "pinnace.batch.tasks"
BATCH_PASSED: Final = "pinnace.batch.passed"
BATCH_FAILED: Final = "pinnace.batch.failed"

TOKEN_USAGE: Final = "gen_ai.client.token.usage"
OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
INVOKE_AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
EXECUTE_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"

TOKEN_BOUNDS: Final = tuple(float(4**power) for power in range(14))
"""Of the buckets of token counts."""
SECOND_BOUNDS: Final = tuple(0.01 * 2**power for power in range(14))
"""Of the buckets of durations."""
CHUNK_BOUNDS: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Of the buckets of the time to the first chunk."""

TOOL_ERROR: Final = "tool_error"
"""`error.type` of a call whose result is an error."""
INTERRUPTED: Final = "interrupted"
"""`error.type` of what had not ended when the process did."""

# The conventions' name of a provider, where it is not this program's.
_PROVIDERS: Final[Mapping[str, str]] = {
    "amazon-bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "azure-openai": "azure.ai.openai",
    "azure-openai-responses": "azure.ai.openai",
    "google": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "moonshotai-cn": "moonshot_ai",
    "xai": "x_ai",
}
_FINISH_REASONS: Final[Mapping[StopReason, str]] = {"toolUse": "tool_call"}
_DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}


def provider_name(provider: str) -> str:
    """Return a provider's name in the conventions."""
    return _PROVIDERS.get(provider, provider)


def finish_reason(reason: StopReason) -> str:
    """Return why an answer has ended, in the words of the conventions."""
    return _FINISH_REASONS.get(reason, reason)


def model_attributes(model: Model) -> Attributes:
    """Return which model is asked, and where: of its address only the host and the port."""
    found: Attributes = {PROVIDER: provider_name(model["provider"]), REQUEST_MODEL: model["id"]}
    try:
        address = urlsplit(model["baseUrl"])
        port = address.port or _DEFAULT_PORTS.get(address.scheme)
    except ValueError:  # no address
        return found
    if address.hostname and port:
        found |= {SERVER_ADDRESS: address.hostname, SERVER_PORT: port}
    return found


def input_tokens(usage: Usage) -> int:
    """Return all tokens of a request, those of the cache included, as the conventions count."""
    return usage["input"] + usage["cacheRead"] + usage["cacheWrite"]


def usage_attributes(usage: Usage) -> Attributes:
    """Return what a request, or several, have used; empty if the provider has not said it."""
    if not (input_tokens(usage) or usage["output"]):
        return {}
    found: Attributes = {INPUT_TOKENS: input_tokens(usage), OUTPUT_TOKENS: usage["output"]}
    if usage["cacheRead"]:
        found[CACHE_READ_TOKENS] = usage["cacheRead"]
    if usage["cacheWrite"]:
        found[CACHE_WRITE_TOKENS] = usage["cacheWrite"]
    if reasoning := usage.get("reasoning", 0):
        found[REASONING_TOKENS] = reasoning
    if cost := usage["cost"]["total"]:
        found[COST] = cost
    return found


def answer_attributes(message: AssistantMessage) -> Attributes:
    """Return what is known of an answer, without its content."""
    found: Attributes = {FINISH_REASONS: [finish_reason(message["stopReason"])], **usage_attributes(message["usage"])}
    found[RESPONSE_MODEL] = message.get("responseModel") or message["model"]
    if response := message.get("responseId"):
        found[RESPONSE_ID] = response
    return found
