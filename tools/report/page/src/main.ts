// The page: a headline that answers, then the sections that the program wrote.
import { drawChart, drawHeatmap } from "./chart.js";
import { readPage, type Page, type Section } from "./data.js";
import { button, element } from "./dom.js";
import { percent } from "./format.js";
import { drawBars, drawFacts, factNode } from "./plain.js";
import { addDownload, frame, type Drawn, type Frame } from "./section.js";
import { drawTable } from "./table.js";
import { drawTimeline } from "./timeline.js";

const drawn: Drawn[] = [];

function drawSection(section: Section, made: Frame): Drawn {
  switch (section.kind) {
    case "facts":
      return drawFacts(section, made.body);
    case "bars":
      return drawBars(section, made.body);
    case "table":
      return drawTable(section, made);
    case "timeline":
      return drawTimeline(section, made);
    case "chart":
      return drawChart(section, made);
    case "heatmap":
      return drawHeatmap(section, made);
  }
}

function basisNode(page: Page): HTMLElement | null {
  if (!page.basis?.length) return null;
  const words: Record<string, string> = {
    measured: "measured on this GPU",
    transferred: "measured on other GPUs",
    spec: "from the data sheet alone",
    unknown: "a bounded guess",
  };
  const strip = element("span", { class: "strip", "aria-hidden": "true" });
  for (const part of page.basis) {
    const piece = element("span", { class: `piece ${part.name}` });
    piece.style.width = `${part.share * 100}%`;
    strip.append(piece);
  }
  const text = page.basis
    .map((part) => `${part.name} ${percent(part.share)}${words[part.name] ? ` (${words[part.name]})` : ""}`)
    .join(", ");
  return element("p", { class: "basis-line" }, element("strong", {}, "Basis of the time: "), text, strip);
}

function listNode(title: string, lines: string[] | undefined, isOpen: boolean): HTMLElement | null {
  if (!lines?.length) return null;
  const items = element("ul", {}, ...lines.map((line) => element("li", {}, line)));
  const node = element("details", { class: "notes" }, element("summary", {}, `${title} (${lines.length})`), items);
  node.open = isOpen;
  return node;
}

function head(page: Page): HTMLElement {
  const warnings = page.warnings?.length
    ? element("ul", { class: "warnings", "aria-label": "Warnings" }, ...page.warnings.map((w) => element("li", {}, w)))
    : null;
  return element(
    "section",
    { id: "report", class: "report", tabindex: -1, "aria-labelledby": "title" },
    element("h1", { id: "title" }, page.title),
    element("p", { class: "subtitle" }, page.subtitle),
    element("p", { class: "sentence" }, page.report),
    warnings,
    element("dl", { class: "headline" }, ...page.headline.map((fact) => factNode(fact, true))),
    basisNode(page),
    listNode("What was chosen for you", page.assumptions, false),
  );
}

function foot(page: Page): HTMLElement {
  const inputs = (page.inputs ?? []).map((input) => `${input.kind} ${input.name}: sha256 ${input.sha256}`);
  return element(
    "footer",
    {},
    page.command
      ? element("p", {}, "Made by ", element("code", {}, page.command), ` (tracecast ${page.version}). The same command gives the same page.`)
      : null,
    element("p", {}, "Intervals are 90 % prediction intervals. A basis says what a figure rests on: measured, transferred, spec, or unknown."),
    listNode("Inputs with their hashes", inputs, false),
  );
}

function applyTheme(choice: string): void {
  if (choice === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
}

function redrawAll(): void {
  for (const one of drawn) one.redraw?.();
}

function themeButton(): HTMLButtonElement {
  const order = ["auto", "light", "dark"];
  let at = 0;
  const made = button("Theme: auto", "Theme: auto", () => {
    at = (at + 1) % order.length;
    applyTheme(order[at]);
    made.textContent = `Theme: ${order[at]}`;
    made.title = made.textContent;
    redrawAll();
  });
  return made;
}

function bar(page: Page): HTMLElement {
  const links = page.sections.map((section) =>
    element("li", {}, element("a", { href: `#${section.id}` }, section.title)),
  );
  return element(
    "div",
    { class: "bar" },
    element("span", { class: "mark" }, "tracecast", element("span", { class: "subcommand" }, ` ${page.subcommand}`)),
    element("nav", { "aria-label": "Sections" }, element("ul", {}, ...links)),
    element("span", { class: "buttons" }, themeButton(), button("Print", "Print", () => print())),
  );
}

/** Paper is white whatever the screen is. */
function followPrint(): void {
  let before: string | undefined;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme ?? "auto";
    applyTheme("light");
    redrawAll();
  });
  addEventListener("afterprint", () => {
    applyTheme(before ?? "auto");
    redrawAll();
  });
}

function follow(): void {
  let wait = 0;
  let wide = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === wide) return;
    wide = innerWidth;
    clearTimeout(wait);
    wait = setTimeout(redrawAll, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  followPrint();
}

function start(): void {
  const holder = document.getElementById("page")!;
  const page = readPage();
  if (!page) {
    holder.append(element("main", {}, element("h1", {}, "This page holds no data"), element("p", {}, "Its file is damaged, or was not written by tracecast.")));
    return;
  }
  document.title = `${page.title} \u2013 tracecast ${page.subcommand}`;
  const main = element("main", {}, head(page));
  holder.append(element("header", { class: "top" }, bar(page)), main, foot(page));
  holder.append(element("div", { id: "live", class: "unseen", "aria-live": "polite" }));
  for (const section of page.sections) {
    const made = frame(section);
    main.append(made.node);
    const one = drawSection(section, made);
    addDownload(made, section, one);
    drawn.push(one);
  }
  follow();
  document.documentElement.dataset.ready = "yes";
}

start();
