// Sections without axes: facts, and parts of a whole.
import type { BarsSection, Fact, FactsSection } from "./data.js";
import { colourOf, element } from "./dom.js";
import { digits, percent, scaleOf, show, showRange } from "./format.js";
import type { Drawn } from "./section.js";

/** Where the value lies in its 90 % interval, as a line with a dot. Decoration: the numbers stand beside it. */
function intervalLine(fact: Fact): SVGElement | null {
  const { value, low, high } = fact;
  if (value === undefined || low === undefined || high === undefined || !(high > low)) return null;
  const space = "http://www.w3.org/2000/svg";
  const draw = (tag: string, attributes: Record<string, string>) => {
    const made = document.createElementNS(space, tag);
    for (const [name, text] of Object.entries(attributes)) made.setAttribute(name, text);
    return made;
  };
  const at = 4 + (92 * (value - low)) / (high - low);
  const picture = draw("svg", { viewBox: "0 0 100 10", class: "interval", preserveAspectRatio: "xMinYMid", "aria-hidden": "true" });
  picture.append(
    draw("path", { d: "M4 5H96M4 2V8M96 2V8", class: "whisker" }),
    draw("circle", { cx: String(at), cy: "5", r: "3.2", class: "dot" }),
  );
  return picture;
}

export function factNode(fact: Fact, isLarge = false): HTMLElement {
  const value = fact.value === undefined ? (fact.text ?? "\u2013") : show(fact.value, fact.unit);
  const [number, ...unit] = fact.value === undefined ? [value] : value.split(" ");
  const hasInterval = fact.low !== undefined && fact.high !== undefined;
  return element(
    "div",
    { class: isLarge ? "fact large" : "fact" },
    element("dt", {}, fact.label),
    element(
      "dd",
      {},
      element(
        "span",
        { class: fact.value === undefined ? "words" : "value" },
        number,
        unit.length ? element("span", { class: "unit" }, ` ${unit.join(" ")}`) : null,
      ),
      hasInterval ? intervalLine(fact) : null,
      hasInterval
        ? element(
            "span",
            { class: "range" },
            `90 % interval: ${showRange(fact.low!, fact.high!, fact.unit ?? "", fact.value)}`,
          )
        : null,
      fact.basis ? element("span", { class: "basis" }, `basis: ${fact.basis}`) : null,
      fact.note ? element("span", { class: "note" }, fact.note) : null,
    ),
  );
}

export function drawFacts(section: FactsSection, body: HTMLElement): Drawn {
  body.append(element("dl", { class: "facts" }, ...section.facts.map((fact) => factNode(fact))));
  return {
    header: ["what", "value", "unit", "low", "high", "basis", "note"],
    rows: () =>
      section.facts.map((f) => [f.label, f.value ?? f.text, f.unit, f.low, f.high, f.basis, f.note]),
  };
}

export function drawBars(section: BarsSection, body: HTMLElement): Drawn {
  const whole = section.whole > 0 ? section.whole : 1;
  const greatest = Math.max(...section.bars.map((bar) => bar.value), 0);
  const scale = scaleOf(section.whole, section.unit);
  const rows = section.bars.map((bar, i) => {
    const width = greatest > 0 ? (100 * bar.value) / greatest : 0;
    const fill = element("span", { class: `fill c${colourOf(bar.name, i)}` });
    fill.style.width = `${width}%`;
    return element(
      "tr",
      { class: bar.level ? "inner" : "" },
      element("th", { scope: "row" }, bar.name, bar.note ? element("small", {}, ` ${bar.note}`) : null),
      element("td", { class: "number" }, digits(bar.value / scale.factor)),
      element("td", { class: "number" }, percent(bar.value / whole)),
      element("td", { class: "bar", "aria-hidden": "true" }, fill),
    );
  });
  const heads = ["part", scale.unit, "share"].map((name) => element("th", { scope: "col" }, name));
  body.append(
    element(
      "table",
      { class: "bars" },
      element("caption", { class: "unseen" }, section.title),
      element("thead", {}, element("tr", {}, ...heads, element("td", { "aria-hidden": "true" }))),
      element("tbody", {}, ...rows),
    ),
  );
  return {
    header: ["part", "level", `value_${section.unit}`, "share", "note"],
    rows: () =>
      section.bars.map((b) => [b.name, b.level ?? 0, b.value, b.value / whole, b.note]),
  };
}
