"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const controls = by("controls"), search = by("search"), area = by("area"), agent = by("agent"), differ = by("differ");
  const found = by("found"), folds = by("folds"), nothing = by("nothing"), said = by("said");
  const picks = all(".picks .pick"), cases = all(".case"), rules = all(".rule");
  const bodies = all("#matrix tbody");

  controls.hidden = false;
  const room = () => {
    const isSticky = getComputedStyle(controls).position === "sticky";
    document.documentElement.style.setProperty("--room", `${(isSticky ? controls.offsetHeight : 0) + 12}px`);
  };
  addEventListener("resize", room);
  room();

  // Without this script every rule stands open.
  const drill = (rule) => rule.nextElementSibling;
  const open = (rule, isOpen) => {
    rule.querySelector("button.open").setAttribute("aria-expanded", String(isOpen));
    drill(rule).hidden = !isOpen;
  };
  for (const rule of rules) {
    open(rule, false);
    rule.querySelector("button.open").addEventListener("click", () => open(rule, drill(rule).hidden));
  }

  const texts = new Map();
  const text = (element) => {
    if (!texts.has(element)) texts.set(element, element.textContent.toLowerCase());
    return texts.get(element);
  };
  const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const isPressed = (button) => button?.getAttribute("aria-pressed") === "true";

  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = new Set(picks.filter(isPressed).map((each) => each.dataset.v));
    const number = agent?.value ? Number(agent.value) : 0;
    const has = (element) => words.every((word) => text(element).includes(word));
    let ruleCount = 0, caseCount = 0;
    for (const body of bodies) {
      let inArea = 0;
      for (const rule of all(".rule", body)) {
        const isArea = !area.value || rule.dataset.area === area.value;
        const own = rule.dataset.v.split(" ");
        const seen = number ? [own[number - 1]] : own;
        const isShown = isArea && (!verdicts.size || seen.some((each) => verdicts.has(each)))
          && (!isPressed(differ) || "differs" in rule.dataset)
          && words.every((word) => text(rule).includes(word) || text(drill(rule)).includes(word));
        rule.classList.toggle("miss", !isShown);
        drill(rule).classList.toggle("miss", !isShown);
        if (isShown) inArea += 1;
      }
      body.classList.toggle("miss", inArea === 0);
      ruleCount += inArea;
    }
    for (const each of cases) {
      const isShown = (!area.value || each.dataset.area.split(" ").includes(area.value))
        && (!verdicts.size || verdicts.has(each.dataset.v))
        && (!number || Number(each.dataset.agent) === number) && has(each);
      each.classList.toggle("miss", !isShown);
      if (isShown) caseCount += 1;
    }
    found.textContent = `${counted(ruleCount, "rule")}, ${counted(caseCount, "case")}`;
    nothing.hidden = ruleCount + caseCount > 0;
  };

  // Whoever follows a link wants to see where it leads.
  const reveal = () => {
    const target = location.hash.length > 1 && by(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const hidden = target.closest(".miss");
    if (hidden) {
      search.value = area.value = "";
      if (agent) agent.value = "";
      for (const each of [...picks, differ]) each?.setAttribute("aria-pressed", "false");
      show();
    }
    const row = target.closest(".drill");
    if (row) open(row.previousElementSibling, true);
    if (target.matches(".case")) target.open = true;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView({ block: target.matches(".lanes > li, .drilled section") ? "center" : "start" });
    if (target.matches(".case")) target.querySelector("summary").focus({ preventScroll: true });
    else if (target.matches("[tabindex]")) target.focus({ preventScroll: true });
  };

  const copied = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {
      const range = document.createRange(), selection = getSelection();
      range.selectNodeContents(code);
      selection.removeAllRanges();
      selection.addRange(range);
      return document.execCommand("copy");
    }
  };
  for (const button of all(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const isDone = await copied(by(button.dataset.for));
      button.textContent = isDone ? "Copied" : "Selected";
      button.classList.toggle("done", isDone);
      said.textContent = isDone ? "Copied" : "Selected, copy it with the keyboard";
      setTimeout(() => {
        button.textContent = "Copy";
        button.classList.remove("done");
      }, 1500);
    });
  }

  const press = (button) => {
    button.setAttribute("aria-pressed", String(!isPressed(button)));
    show();
  };
  for (const button of [...picks, differ]) button?.addEventListener("click", () => press(button));
  for (const choice of [area, agent]) choice?.addEventListener("change", show);
  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, 120);
  });
  folds.addEventListener("click", () => {
    const isOpen = !isPressed(folds);
    folds.setAttribute("aria-pressed", String(isOpen));
    folds.textContent = isOpen ? "Close all" : "Open all";
    for (const each of cases) if (!each.classList.contains("miss")) each.open = isOpen;
  });
  addEventListener("hashchange", reveal);
  // The same link again is no change of the hash.
  addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (link && link.hash === location.hash) reveal();
  });
  addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      search.value = "";
      show();
      search.blur();
    } else if ((event.key === "j" || event.key === "k") && !isTyping) {
      const shown = cases.filter((each) => !each.classList.contains("miss"));
      const at = shown.indexOf(document.activeElement?.closest(".case"));
      const next = shown[event.key === "j" ? Math.min(at + 1, shown.length - 1) : Math.max(at - 1, 0)];
      next?.querySelector("summary").focus();
    }
  });
  // On paper nothing can be opened.
  let before = [];
  addEventListener("beforeprint", () => {
    before = cases.filter((each) => !each.open && /^(FAIL|HANG|CRASH)$/.test(each.dataset.v));
    for (const each of before) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of before) each.open = false;
  });

  show();
  reveal();
})();
