// A button at each block that copies it: of a conversation with a shell only what is typed.
"use strict";

const typed = (block) => {
  const text = block.textContent;
  if (!block.closest(".highlight-console")) return text;
  const lines = text.split("\n").filter((line) => /^[$#>] /.test(line));
  return lines.map((line) => line.slice(2)).join("\n") + "\n";
};

const copy = async (text) => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // A page that came over plain http from another machine has no clipboard but this.
  const area = document.body.appendChild(document.createElement("textarea"));
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
};

document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight > pre")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await copy(typed(block));
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not copied";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    block.parentElement.append(button);
  }
});
