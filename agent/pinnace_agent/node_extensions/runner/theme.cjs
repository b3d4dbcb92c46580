/** `ctx.ui.theme`: the 16 colours of every terminal, since the client's theme is unknown here; the same as the agent's own. */

"use strict";

const FOREGROUND = {
  accent: 36, border: 34, borderAccent: 36, borderMuted: 90, success: 32, error: 31, warning: 33, muted: 90, dim: 90, text: 39,
  toolDiffAdded: 32, toolDiffRemoved: 31, toolDiffContext: 90,
};
const style = (begin, end) => (text) => `\x1b[${begin}m${text}\x1b[${end}m`;

/** Styles texts. An unknown colour leaves the text as it is. */
class Theme {
  name = "default";
  fg(color, text) {
    const code = FOREGROUND[color];
    return code === undefined ? text : `\x1b[${code}m${text}\x1b[39m`;
  }
  bg(color, text) {
    const code = FOREGROUND[color];
    return code === undefined ? text : `\x1b[${code + 10}m${text}\x1b[49m`;
  }
  bold = style(1, 22);
  italic = style(3, 23);
  underline = style(4, 24);
  inverse = style(7, 27);
  strikethrough = style(9, 29);
  getFgAnsi(color) { return `\x1b[${FOREGROUND[color] ?? 39}m`; }
  getBgAnsi(color) { return `\x1b[${(FOREGROUND[color] ?? 39) + 10}m`; }
  getColorMode() { return "256color"; }
  getThinkingBorderColor() { return (text) => this.fg("border", text); }
  getBashModeBorderColor() { return (text) => this.fg("border", text); }
}

const theme = new Theme();

module.exports = { Theme, theme };
