// Numbers as people read them: three digits, a prefix that fits, the unit behind.
import type { Unit } from "./data.js";

const kPrefixes: [number, string][] = [
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
const kTimes: [number, string][] = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "\u00b5s"],
  [1e-9, "ns"],
  [1e-12, "ps"],
];
const kBinary: [number, string][] = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
];

/** Three significant digits, thousands apart: "0.0902", "1.46", "12,300". */
export function digits(value: number, count = 3): string {
  if (!Number.isFinite(value)) return "\u2013";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4) return value.toExponential(count - 1);
  const decimals = Math.max(0, count - 1 - Math.floor(Math.log10(size) + 1e-12));
  return value.toLocaleString("en-US", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
}

/** The factor and unit that suit a value; of a table's column, those of its greatest value. */
export function scaleOf(value: number, unit: Unit): { factor: number; unit: string } {
  const size = Math.abs(value);
  if (unit === "s") {
    for (const [factor, name] of kTimes) {
      // Two minutes are said in seconds, two hours in minutes.
      if (size >= factor * (factor >= 60 ? 2 : 1)) return { factor, unit: name };
    }
    return { factor: 1, unit: "s" };
  }
  if (unit === "B") {
    for (const [factor, name] of kBinary) if (size >= factor) return { factor, unit: name };
    return { factor: 1, unit: "B" };
  }
  if (unit === "share") return { factor: 0.01, unit: "%" };
  if (unit === "flop" || unit === "flop/s" || unit === "B/s" || unit === "count") {
    const word = { flop: "FLOP", "flop/s": "FLOP/s", "B/s": "B/s", count: "" }[unit];
    for (const [factor, prefix] of kPrefixes) {
      if (size >= factor && (unit !== "count" || factor > 1e3)) return { factor, unit: prefix + word };
    }
    return { factor: 1, unit: word };
  }
  return { factor: 1, unit };
}

/** A share as the program's text says it: "12 %", "<1 %". */
export function percent(share: number): string {
  const value = share * 100;
  if (value > 0 && value < 0.5) return "<1 %";
  return `${Math.abs(value) < 10 && value % 1 !== 0 ? value.toFixed(1) : Math.round(value)} %`;
}

export function show(value: number | null | undefined, unit: Unit = ""): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "\u2013";
  if (unit === "share") return percent(value);
  const scale = scaleOf(value, unit);
  const isWhole = unit === "count" && scale.factor === 1 && Number.isInteger(value);
  const text = isWhole ? value.toLocaleString("en-US") : digits(value / scale.factor);
  return scale.unit ? `${text} ${scale.unit}` : text;
}

/** "140 to 242 ms": both in the unit that suits the value between them. */
export function showRange(low: number, high: number, unit: Unit, between = high): string {
  const scale = scaleOf(between, unit);
  const name = scale.unit ? ` ${scale.unit}` : "";
  const text = (value: number) =>
    unit === "share" ? String(Math.round(value * 100)) : digits(value / scale.factor);
  return `${text(low)} to ${text(high)}${name}`;
}

/** The name of a column or axis with its unit: "time, ms". */
export function withUnit(label: string, unit: string): string {
  return unit ? `${label}, ${unit}` : label;
}
