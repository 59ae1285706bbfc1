// What the program writes into a page (tools/report/page.hpp): a headline, then sections, each of one kind.
// Numbers are SI, their unit beside them; texts are shown as they are, never as HTML.

/** "s", "B", "flop", "flop/s", "B/s", "W", "share" (0 to 1, shown in percent), or any word that follows the number. */
export type Unit = string;

/** A figure, or a text where there is no number. `low` and `high` are the 90 % interval. */
export interface Fact {
  label: string;
  value?: number;
  text?: string;
  unit?: Unit;
  low?: number;
  high?: number;
  basis?: string;
  note?: string;
}

export interface Share {
  name: string;
  share: number;
}

interface SectionBase {
  id: string;
  title: string;
  /** What is shown and how to read it, a sentence or two. */
  text?: string;
  /** How far to trust it: basis and interval in words. */
  trust?: string;
}

export interface FactsSection extends SectionBase {
  kind: "facts";
  facts: Fact[];
}

/** Parts of a whole, greatest first; `level` 1 is a part of the level-0 bar before it. */
export interface BarsSection extends SectionBase {
  kind: "bars";
  unit: Unit;
  whole: number;
  bars: { name: string; value: number; level?: number; note?: string }[];
}

export interface Column {
  name: string;
  /** Absent: text. */
  unit?: Unit;
  /** A bar behind the number, relative to the greatest of the column. */
  bar?: boolean;
}

export interface TableSection extends SectionBase {
  kind: "table";
  columns: Column[];
  rows: (string | number | null)[][];
  /** Column sorted by at first, greatest first; absent: as given. */
  sort?: number;
}

/** Slices of a track, in order of their begin; times in ticks from the page's zero, begins as differences. */
export interface Track {
  name: string;
  group: string;
  begin: number[];
  length: number[];
  name_of: number[];
  class_of: number[];
}

export interface TimelineSection extends SectionBase {
  kind: "timeline";
  /** Seconds of a tick. */
  tick_s: number;
  names: string[];
  classes: string[];
  tracks: Track[];
  /** What is left out, if anything. */
  cut?: string;
}

export interface Axis {
  label: string;
  unit: Unit;
  log?: boolean;
  /** Names of the places 0, 1, 2 ... of a category axis. */
  names?: string[];
  /** Where the axis begins or ends; absent: what the data need. */
  min?: number;
  max?: number;
}

export interface Series {
  name: string;
  form: "points" | "line" | "steps" | "area" | "bars" | "reference";
  x: number[];
  y: number[];
  /** 90 % interval of y. */
  low?: number[];
  high?: number[];
  /** One label per point, shown with it. */
  labels?: string[];
}

export interface ChartSection extends SectionBase {
  kind: "chart";
  x: Axis;
  y: Axis;
  series: Series[];
  /** Areas are stacked. */
  tall?: boolean;
}

export interface HeatmapSection extends SectionBase {
  kind: "heatmap";
  x: { label: string; names: string[] };
  y: { label: string; names: string[] };
  unit: Unit;
  /** Row by row of y; null: no answer. */
  values: (number | null)[][];
  low?: (number | null)[][];
  high?: (number | null)[][];
  /** Why a cell has no answer, or what is to be said of it. */
  notes?: (string | null)[][];
}

export type Section =
  | FactsSection
  | BarsSection
  | TableSection
  | TimelineSection
  | ChartSection
  | HeatmapSection;

export interface Page {
  schema: string;
  version: string;
  /** "predict", "study" ... */
  subcommand: string;
  title: string;
  subtitle: string;
  headline: Fact[];
  /** One sentence that says the answer. */
  report: string;
  basis?: Share[];
  warnings?: string[];
  assumptions?: string[];
  sections: Section[];
  command?: string;
  inputs?: { kind: string; name: string; sha256: string }[];
}

/** The page's data; null where the file holds none that can be read. */
export function readPage(): Page | null {
  const holder = document.getElementById("data");
  try {
    return JSON.parse(holder?.textContent ?? "") as Page;
  } catch {
    return null;
  }
}
