// What every kind of section has: a frame with title, words and buttons, and its data as CSV.
import { csv, download, type Cell } from "./csv.js";
import type { Section } from "./data.js";
import { button, element } from "./dom.js";

export interface Drawn {
  header: string[];
  rows: () => Iterable<Cell[]>;
  /** Draws again: another theme, or another width. */
  redraw?: () => void;
}

export interface Frame {
  node: HTMLElement;
  body: HTMLElement;
  tools: HTMLElement;
}

export function frame(section: Section): Frame {
  const body = element("div", { class: "body" });
  const tools = element("div", { class: "tools" });
  const node = element(
    "section",
    { id: section.id, class: `section ${section.kind}`, "aria-labelledby": `${section.id}-title` },
    element(
      "header",
      {},
      element("h2", { id: `${section.id}-title` }, section.title),
      tools,
      section.text ? element("p", {}, section.text) : null,
      section.trust ? element("p", { class: "trust" }, section.trust) : null,
    ),
    body,
  );
  return { node, body, tools };
}

export function addDownload(made: Frame, section: Section, drawn: Drawn): void {
  const act = () => download(`tracecast-${section.id}.csv`, csv(drawn.header, drawn.rows()));
  made.tools.append(button("CSV", `Download the data of "${section.title}" as CSV`, act));
}
