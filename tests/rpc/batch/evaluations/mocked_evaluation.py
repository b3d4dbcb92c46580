"""Evaluates the example for Inspect AI with a model that says what a good one would; prints the score."""

import sys

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_pinnace import pinnace, writes_a_file

answers = [
    ModelOutput.for_tool_call("mockllm", "bash", {"command": "echo $((6 * 7)) > answer.txt"}),
    ModelOutput.from_content("mockllm", "It is written."),
]
for each in answers:
    # Else the mock counts tokens, with tables that it downloads.
    each.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
model = get_model("mockllm/model", custom_outputs=answers)
[log] = evaluate(
    writes_a_file(), solver=pinnace(port=int(sys.argv[1])), model=model, display="none", log_dir=sys.argv[2]
)
assert log.results is not None, log.error
assert log.samples is not None
roles = " ".join(message.role for message in log.samples[0].messages)
print(log.status, log.results.scores[0].metrics["accuracy"].value, roles)
