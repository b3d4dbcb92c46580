"""The names of the flags in `compat` of models.json."""

from typing import Final

COMPAT_FLAGS: Final = frozenset(
    """
    allowEmptySignature allowedFallbackModels cacheControlFormat chatTemplateArgs chatTemplateKwargs
    forceAdaptiveThinking imageInput maxTokensField openRouterRouting promptCacheKeyMode reasoningEffortMap
    requiresAssistantAfterToolResult requiresNonNullAssistantContent requiresReasoningContentOnAssistantMessages
    requiresThinkingAsText requiresToolResultName requiresToolsWithToolHistory sendImageOptInHeader
    sendSessionAffinityHeaders sessionAffinityFormat supportsAdditionalTools supportsCacheControlOnTools
    supportsDeveloperRole supportsEagerToolInputStreaming supportsExplicitPromptCacheMode supportsFinishReason
    supportsLongCacheRetention supportsMaxOutputTokens supportsMessageThreads supportsMidConvoEffort
    supportsMidConvoSystemMessages supportsMidConvoToolAdditions supportsMidConvoToolChanges
    supportsOpenAIGrammarTools supportsReasoningEffort supportsStore supportsStrictMode supportsStrictTools
    supportsTemperature supportsThinkingTokenBudget supportsToolSearch supportsUsageInStreaming thinkingFormat
    thinkingTokenBudgetField vercelGatewayRouting vllmPriority zaiToolStream
    """.split()
)
"""The flags of `compat` that this program or pi knows."""
