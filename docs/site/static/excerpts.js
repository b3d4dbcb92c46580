// What a page says around the words that were searched for, below each result of a search. The texts are in a script
// (PAGE_TEXTS): a page that is opened from a disk may not read other files.
"use strict";

const AROUND = 120;

const excerpt = (text, words) => {
  const lower = text.toLowerCase();
  // The index holds stems, so a word may be there in another form.
  const places = words.map((word) => [lower.indexOf(word), lower.indexOf(word.slice(0, Math.max(4, word.length - 3)))]);
  const place = Math.max(0, places.flat().find((each) => each >= 0) ?? 0);
  const start = place <= AROUND ? 0 : text.indexOf(" ", place - AROUND) + 1;
  const paragraph = document.createElement("p");
  paragraph.className = "context";
  if (start > 0) paragraph.append("… ");
  const shown = text.slice(start, start + 2 * AROUND);
  const found = words.map((word) => shown.toLowerCase().indexOf(word)).findIndex((each) => each >= 0);
  if (found < 0) paragraph.append(shown);
  else {
    const at = shown.toLowerCase().indexOf(words[found]);
    const mark = document.createElement("mark");
    mark.textContent = shown.slice(at, at + words[found].length);
    paragraph.append(shown.slice(0, at), mark, shown.slice(at + words[found].length));
  }
  if (start + shown.length < text.length) paragraph.append(" …");
  return paragraph;
};

document.addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  const query = new URLSearchParams(window.location.search).get("q") ?? "";
  const words = query.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean);
  if (!results || words.length === 0) return;
  const add = () => {
    for (const item of results.querySelectorAll("ul.search > li:not(.has-excerpt)")) {
      item.classList.add("has-excerpt");
      const page = item.querySelector("a")?.getAttribute("href")?.replace(/\.html(#.*)?$/, "");
      if (page in PAGE_TEXTS) item.append(excerpt(PAGE_TEXTS[page], words));
    }
  };
  new MutationObserver(add).observe(results, { childList: true, subtree: true });
  add();
});
