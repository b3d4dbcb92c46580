/**
 * Surfaces: what components of extensions draw in the client's terminal.
 *
 * A component stays in this process: it is rendered to lines for the width that the client has sent, after each key and
 * whenever it asks for it, sixty times a second at most. The agent bounds and cleans the lines, and the client draws them.
 * A surface outlives the call that has opened it, so its messages belong to none.
 */

"use strict";

const { atRetirement } = require("./retiring.cjs");
const { theme } = require("./theme.cjs");
const { CALL, ask, errorOf, now, post, send } = require("./wire.cjs");

// With the first component: the names of keys and what measures texts take a tenth of the start of this process.
const keys = () => require("./keys.cjs");

const FRAME_MS = 16;
const MOST_LINES = 500;
const LONGEST_LINE = 8000;
const CURSOR = "\x1b_pi:c\x07";

const open = new Map(); // by extension and number
let numbers = 0;

class Surface {
  constructor(who) {
    this.who = who;
    this.number = ++numbers;
    this.columns = 0;
    this.rows = 0;
    this.component = undefined;
    this.focus = undefined;
    this.listeners = new Set();
    this.timer = undefined;
    this.make = undefined;
    this.isOver = false;
    this.isHidden = false;
    this.ended = () => {};
    this.failed = () => {};
    this.editor = undefined; // what takes the input of an editor, and answers it
    this.onForget = () => {};
    this.tui = screenOf(this);
    open.set(`${who.extension}:${this.number}`, this);
  }

  /** Draw a component from now on, and give it the keys. */
  use(component) {
    if (typeof component?.render !== "function") throw new Error("the factory must return a component, which has render(width)");
    this.component = component;
    this.setFocus(component);
    this.draw();
  }

  setFocus(component) {
    if (this.focus && "focused" in this.focus) this.focus.focused = false;
    this.focus = component ?? this.component;
    if (this.focus && "focused" in this.focus) this.focus.focused = true;
  }

  request() {
    if (this.timer !== undefined || this.isOver) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.draw();
    }, FRAME_MS);
  }

  draw() {
    if (this.isOver || this.columns === 0 || this.component === undefined) return;
    try {
      const lines = this.isHidden ? [] : this.component.render(this.columns);
      const shown = Array.from(lines.slice(0, MOST_LINES), (line) => String(line).slice(0, LONGEST_LINE).replaceAll(CURSOR, ""));
      post(this.who, "surface.draw", this.number, shown);
    } catch (error) {
      this.fail(error);
    }
  }

  take({ columns, rows, data, text, by, number, ended }) {
    if (columns !== undefined) {
      const isOther = this.columns !== 0;
      [this.columns, this.rows] = [columns, rows];
      try {
        const make = this.make;
        this.make = undefined;
        make?.();
        if (isOther) this.component?.invalidate?.();
      } catch (error) {
        this.fail(error);
      }
      this.draw();
    }
    if (data !== undefined || text !== undefined) {
      try {
        if (this.editor) this.editor.take({ data, text, by, number });
        else if (data !== undefined) this.press(data);
      } catch (error) {
        this.fail(error);
      }
    }
    if (ended) {
      this.forget();
      this.ended();
    }
  }

  press(data) {
    for (const listener of [...this.listeners]) {
      const result = listener(data);
      if (result?.consume) return;
      if (result?.data !== undefined) data = result.data;
    }
    this.focus?.handleInput?.(data);
    this.request();
  }

  /** An error of a component ends it, and nothing else. */
  fail(error) {
    this.close();
    this.failed(error);
  }

  close() {
    if (this.isOver) return;
    this.forget();
    post(this.who, "surface.close", this.number);
  }

  forget() {
    this.isOver = true;
    clearTimeout(this.timer);
    this.onForget();
    open.delete(`${this.who.extension}:${this.number}`);
  }
}

/** Take what the agent reports of a surface. One that is gone takes nothing. */
function surfaceChanged(message) {
  const surface = open.get(`${message.extension}:${message.surface}`);
  if (surface) CALL.run({ extension: surface.who.extension, context: surface.who.context }, () => surface.take(message));
}

/** Show a component until it is done; returns its result. Without a terminal it is not made. */
async function custom(who, factory, options = {}) {
  if (now(who, "ctx.mode") !== "tui") return undefined;
  const { promise, resolve, reject } = Promise.withResolvers();
  const surface = CALL.exit(() => new Surface(who));
  let isDone = false;
  const done = (result) => {
    if (isDone) return;
    isDone = true;
    resolve(result);
    surface.close();
  };
  surface.failed = (error) => {
    isDone = true;
    reject(error);
  };
  surface.ended = () => done(undefined);
  const given = typeof options.overlayOptions === "function" ? options.overlayOptions() : options.overlayOptions;
  const shown = ask(who, "surface.custom", [surface.number, options.overlay === true, layoutOf(given)]);
  shown.then(() => done(undefined), () => done(undefined));
  let component;
  try {
    component = await factory(surface.tui, theme, keys().keybindings(), done);
    if (!isDone) {
      surface.use(component);
      options.onHandle?.(handleOf(surface, done));
    }
    return await promise;
  } finally {
    surface.close();
    component?.dispose?.();
  }
}

const staying = new Map(); // by extension and place

atRetirement(() => {
  staying.clear();
  for (const surface of [...open.values()]) {
    try {
      surface.take({ ended: true });
    } catch (error) {
      send({ type: "stray", extension: surface.who.extension, error: errorOf(error) });
    }
  }
});

/** Show a component in a place until another one, or none, is shown there. */
function stay(who, place, key, factory, ...more) {
  const name = `${who.extension}:${place}:${key ?? ""}`;
  const former = staying.get(name);
  staying.delete(name);
  former?.();
  if (typeof factory !== "function") return;
  CALL.exit(() => {
    const surface = new Surface(who);
    let component;
    const end = () => {
      surface.close();
      component?.dispose?.();
    };
    surface.failed = (error) => {
      if (staying.get(name) === end) staying.delete(name);
      component?.dispose?.();
      send({ type: "stray", extension: who.extension, error: errorOf(error) });
    };
    surface.ended = () => component?.dispose?.();
    // Not made before a client draws it, as in pi's RPC mode.
    surface.make = () => {
      component = factory(surface.tui, theme, ...more.map((each) => each(surface)));
      surface.use(component);
    };
    staying.set(name, end);
    post(who, "surface.open", surface.number, place, key ?? null);
  });
}

/** What components reach of a terminal: that of pi has more, which is undefined here. */
function screenOf(surface) {
  const nothing = () => {};
  return {
    get terminal() {
      return {
        columns: surface.columns || 80, rows: surface.rows || 24, kittyProtocolActive: false,
        write: nothing, setTitle: nothing, hideCursor: nothing, showCursor: nothing, setProgress: nothing,
      };
    },
    get children() { return surface.component ? [surface.component] : []; },
    requestRender: () => surface.request(),
    invalidate: () => surface.component?.invalidate?.(),
    setFocus: (component) => surface.setFocus(component),
    hasOverlay: () => false,
    addInputListener(listener) {
      surface.listeners.add(listener);
      return () => surface.listeners.delete(listener);
    },
    removeInputListener: (listener) => surface.listeners.delete(listener),
    getShowHardwareCursor: () => false,
    setShowHardwareCursor: nothing,
    setClearOnShrink: nothing,
    start: nothing,
    stop: nothing,
    showOverlay() {
      throw new Error("tui.showOverlay is not available in pinnace: use ctx.ui.custom with { overlay: true }");
    },
  };
}

/** By what an extension hides and closes its overlay. */
function handleOf(surface, done) {
  const setHidden = (isHidden) => {
    surface.isHidden = isHidden;
    surface.draw();
  };
  const nothing = () => {};
  return {
    hide: () => done(undefined), setHidden, isHidden: () => surface.isHidden,
    focus: nothing, unfocus: nothing, isFocused: () => !surface.isHidden,
  };
}

const EXTENTS = { width: "width", minWidth: "minWidth", maxHeight: "maxHeight", row: "row", col: "column" };

/** Options of an overlay as the agent takes them; what has another form has no effect. */
function layoutOf(options = {}) {
  const layout = {};
  for (const [name, own] of Object.entries(EXTENTS)) {
    const value = options[name];
    if (typeof value === "number" && value >= 0) layout[own] = String(Math.trunc(value));
    else if (/^\d{1,4}(?:\.\d+)?%$/.test(value ?? "")) layout[own] = `${Math.round(Number.parseFloat(value))}%`;
  }
  for (const name of ["offsetX", "offsetY"]) if (Number.isInteger(options[name])) layout[name] = options[name];
  if (typeof options.anchor === "string") layout.anchor = options.anchor;
  const margin = typeof options.margin === "object" ? Math.max(0, ...Object.values(options.margin)) : options.margin;
  if (Number.isInteger(margin) && margin >= 0) layout.margin = margin;
  return layout;
}

module.exports = { surfaceChanged, custom, stay };
