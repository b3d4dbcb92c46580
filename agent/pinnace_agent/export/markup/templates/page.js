"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const body = document.body, filter = by("filter"), search = by("search"), found = by("found"), folds = by("folds");
  const menu = by("menu"), nothing = by("nothing"), top = document.querySelector(".top");
  const articles = [...document.querySelectorAll("main article")];
  const items = new Map();
  for (const item of document.querySelectorAll("nav li")) items.set(item.firstElementChild.hash.slice(1), item);

  const branches = [...document.querySelectorAll("section.branch")].map((section) => {
    return [section, by(section.getAttribute("aria-labelledby").replace("b", "c"))];
  });

  by("controls").hidden = false;
  const room = () => document.documentElement.style.setProperty("--top", `${top.offsetHeight}px`);
  addEventListener("resize", room);
  room();

  const isShown = (article) => getComputedStyle(article).display !== "none";
  const texts = new Map();
  const text = (article) => {
    if (!texts.has(article)) texts.set(article, article.textContent.toLowerCase());
    return texts.get(article);
  };

  // Marks need no change of the page, where the browser has them.
  const mark = (words, matching) => {
    if (!globalThis.Highlight) return;
    CSS.highlights.delete("found");
    const ranges = [];
    for (const article of words.length ? matching : []) {
      const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
      while (ranges.length < 2000 && walker.nextNode()) {
        const node = walker.currentNode, lower = node.data.toLowerCase();
        if (lower.length !== node.data.length) continue;
        for (const word of words) {
          for (let at = lower.indexOf(word); at >= 0 && ranges.length < 2000; at = lower.indexOf(word, at + word.length)) {
            const range = new Range();
            range.setStart(node, at);
            range.setEnd(node, at + word.length);
            ranges.push(range);
          }
        }
      }
    }
    if (ranges.length) CSS.highlights.set("found", new Highlight(...ranges));
  };

  const show = () => {
    body.dataset.f = filter.value;
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = [];
    for (const article of articles) {
      const isMatch = words.every((word) => text(article).includes(word));
      article.classList.toggle("miss", !isMatch);
      items.get(article.id)?.classList.toggle("miss", !isMatch);
      if (isMatch) matching.push(article);
    }
    for (const [section, heading] of branches) {
      const isEmpty = words.length > 0 && !section.querySelector("article:not(.miss)");
      section.classList.toggle("miss", isEmpty);
      heading.classList.toggle("miss", isEmpty);
    }
    const shown = words.length || filter.value !== "talk" ? matching.filter(isShown) : matching;
    found.textContent = words.length ? `${shown.length} found` : "";
    nothing.hidden = shown.length > 0 || articles.length === 0;
    mark(words, shown);
  };
  // A reader who follows a link wants to see where it leads.
  const reveal = () => {
    const target = location.hash.length > 1 && by(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const article = target.closest("article");
    if (article && !isShown(article)) {
      filter.value = "all";
      search.value = "";
      show();
    }
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  };

  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, 120);
  });
  filter.addEventListener("change", show);
  folds.addEventListener("click", () => {
    const isOpen = folds.getAttribute("aria-pressed") !== "true";
    folds.setAttribute("aria-pressed", String(isOpen));
    folds.textContent = isOpen ? "Fold" : "Unfold";
    for (const fold of document.querySelectorAll("main details")) fold.open = isOpen;
  });
  by("contents").addEventListener("click", (event) => {
    if (event.target.closest("a")) menu.checked = false;
  });
  addEventListener("hashchange", reveal);
  addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target !== menu;
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape") {
      if (event.target === search) {
        search.value = "";
        show();
        search.blur();
      }
      menu.checked = false;
    }
  });

  // The address holds them packed; unpacked they are what other programs read.
  const lines = by("lines");
  lines.addEventListener("click", async (event) => {
    if (!event.isTrusted || !globalThis.DecompressionStream) return;
    event.preventDefault();
    const packed = Uint8Array.from(atob(lines.href.split(",")[1]), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await new Response(unpacked).blob());
    link.download = "session.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });

  let here = null;
  const spy = new IntersectionObserver((changes) => {
    for (const change of changes) {
      if (!change.isIntersecting) continue;
      here?.classList.remove("here");
      here?.firstElementChild.removeAttribute("aria-current");
      here = items.get(change.target.id);
      here?.classList.add("here");
      here?.firstElementChild.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -75% 0px" });
  for (const article of articles) spy.observe(article);

  show();
  reveal();
})();
