/** Streams of events of pi-ai: read as async iterators, with a result. */

"use strict";

/** A queue of events that is read as an async iterator; `result` is its last message. */
class EventStream {
  #queue = [];
  #waiting = [];
  #isOver = false;
  #result = Promise.withResolvers();
  #isLast;
  #resultOf;

  constructor(isLast, resultOf) {
    this.#isLast = isLast;
    this.#resultOf = resultOf;
  }

  push(event) {
    if (this.#isOver) return;
    if (this.#isLast(event)) {
      this.#isOver = true;
      this.#result.resolve(this.#resultOf(event));
    }
    const reader = this.#waiting.shift();
    if (reader) reader({ value: event, done: false });
    else this.#queue.push(event);
  }

  end(result) {
    this.#isOver = true;
    if (result !== undefined) this.#result.resolve(result);
    for (const reader of this.#waiting.splice(0)) reader({ value: undefined, done: true });
  }

  result() {
    return this.#result.promise;
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      if (this.#queue.length > 0) yield this.#queue.shift();
      else if (this.#isOver) return;
      else {
        const next = await new Promise((resolve) => this.#waiting.push(resolve));
        if (next.done) return;
        yield next.value;
      }
    }
  }
}

class AssistantMessageEventStream extends EventStream {
  constructor() {
    super((event) => event.type === "done" || event.type === "error", (event) => event.message ?? event.error);
  }
}
const createAssistantMessageEventStream = () => new AssistantMessageEventStream();

module.exports = { EventStream, AssistantMessageEventStream, createAssistantMessageEventStream };
