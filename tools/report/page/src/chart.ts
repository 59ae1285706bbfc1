// Charts with axes, drawn by ECharts: points, lines, steps, stacked areas, bars, intervals, heat maps.
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import {
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import type { Axis, ChartSection, HeatmapSection, Series } from "./data.js";
import { announce, button, colour, colourOf, element, palette } from "./dom.js";
import { digits, scaleOf, show, showRange, withUnit } from "./format.js";
import type { Drawn, Frame } from "./section.js";

echarts.use([
  BarChart,
  CanvasRenderer,
  CustomChart,
  DataZoomComponent,
  GridComponent,
  HeatmapChart,
  LegendComponent,
  LineChart,
  ScatterChart,
  TooltipComponent,
  VisualMapComponent,
]);

const kFont = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

interface Scaled {
  factor: number;
  name: string;
}

function scaledAxis(axis: Axis, greatest: number): Scaled {
  // A logarithmic axis spans many prefixes: each of its labels has its own.
  if (axis.log) return { factor: 1, name: axis.unit === "flop/s" || axis.unit === "s" ? axis.label : withUnit(axis.label, axis.unit) };
  const scale = scaleOf(greatest, axis.unit);
  return { factor: scale.factor, name: withUnit(axis.label, scale.unit) };
}

function greatestOf(series: Series[], pick: (s: Series) => number[]): number {
  let most = 0;
  for (const one of series) {
    if (one.form === "reference") continue;
    for (const value of pick(one)) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  }
  return most;
}

function axisOption(axis: Axis, scaled: Scaled, isX: boolean): object {
  const line = colour("--line");
  const limits = {
    min: axis.min === undefined ? undefined : axis.min / scaled.factor,
    max: axis.max === undefined ? undefined : axis.max / scaled.factor,
  };
  const ends = isX && !axis.names && !axis.log ? { max: limits.max ?? "dataMax" } : {};
  return {
    type: axis.names ? "category" : axis.log ? "log" : "value",
    data: axis.names,
    name: scaled.name,
    nameLocation: isX ? "middle" : "end",
    nameGap: isX ? 30 : 12,
    nameTextStyle: { color: colour("--soft"), align: isX ? "center" : "left", fontSize: 12 },
    axisLine: { show: isX, lineStyle: { color: line } },
    axisTick: { show: isX, lineStyle: { color: line } },
    axisLabel: {
      color: colour("--soft"),
      fontSize: 12,
      hideOverlap: true,
      formatter: axis.names ? undefined : (value: number) => (axis.log && (axis.unit === "flop/s" || axis.unit === "s") ? shortly(value, axis.unit) : tick(value)),
    },
    splitLine: { show: !isX || axis.log === true, lineStyle: { color: line, opacity: 0.55 } },
    minorSplitLine: { show: false },
    ...limits,
    ...ends,
  };
}

/** A power of ten with its prefix: "10 GFLOP/s". */
function shortly(value: number, unit: string): string {
  const scale = scaleOf(value * (1 + 1e-9), unit);
  return `${tick(Number((value / scale.factor).toPrecision(3)))} ${scale.unit}`;
}

/** An axis' label: no more digits than it needs. */
function tick(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(0).replace("e+", "e");
  return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

/** What hovering shows: text alone, set as text. */
function tooltipNode(title: string, lines: string[]): HTMLElement {
  return element(
    "div",
    { class: "tip" },
    element("strong", {}, title),
    ...lines.map((line) => element("div", {}, line)),
  );
}

function pointLines(section: ChartSection, one: Series, i: number): string[] {
  const x = section.x.names ? section.x.names[one.x[i]] : show(one.x[i], section.x.unit);
  const y = section.y.names ? section.y.names[one.y[i]] : show(one.y[i], section.y.unit);
  const lines = [`${section.x.label}: ${x}`, `${section.y.label}: ${y}`];
  if (one.low && one.high) {
    lines.push(`90 % interval: ${showRange(one.low[i], one.high[i], section.y.unit, one.y[i])}`);
  }
  return lines;
}

function seriesOptions(section: ChartSection, x: Scaled, y: Scaled): object[] {
  const colours = palette();
  const options: object[] = [];
  let used = 0;
  for (const one of section.series) {
    const isReference = one.form === "reference";
    const ink = isReference ? colour("--soft") : colours[colourOf(one.name, used++)];
    const data = one.x.map((value, i) => [value / x.factor, one.y[i] / y.factor]);
    const common = { name: one.name, data, itemStyle: { color: ink }, animation: false };
    if (one.low && one.high) options.push(...intervalOptions(one, x, y, ink));
    if (one.form === "points") {
      const many = data.length > 400;
      options.push({
        ...common,
        type: "scatter",
        symbolSize: many ? 6 : 9,
        itemStyle: { color: ink, opacity: many ? 0.6 : 0.85 },
        emphasis: { scale: 1.6, itemStyle: { opacity: 1, borderColor: colour("--ink"), borderWidth: 1.5 } },
      });
    } else if (one.form === "bars") {
      options.push({ ...common, type: "bar", barMaxWidth: 46 });
    } else {
      const isArea = one.form === "area";
      options.push({
        ...common,
        type: "line",
        step: one.form === "steps" || isArea ? "end" : undefined,
        stack: isArea ? "all" : undefined,
        areaStyle: isArea ? { opacity: 0.75 } : undefined,
        showSymbol: one.form === "line" && data.length <= 40,
        symbolSize: 8,
        silent: isReference,
        lineStyle: {
          color: ink,
          width: isArea ? 0.5 : isReference ? 1.5 : 2.2,
          type: isReference ? "dashed" : "solid",
        },
        sampling: data.length > 5000 && !isArea ? "lttb" : undefined,
        endLabel: isReference
          ? { show: true, formatter: () => one.name, color: ink, fontSize: 11, align: "right", verticalAlign: "bottom", offset: [-6, -3] }
          : undefined,
        z: isReference ? 1 : 3,
      });
    }
  }
  return options;
}

/** The interval of each point as a whisker: bars, points and lines alike. */
function intervalOptions(one: Series, x: Scaled, y: Scaled, ink: string): object[] {
  const data = one.x.map((value, i) => [value / x.factor, one.low![i] / y.factor, one.high![i] / y.factor]);
  type Api = { value(d: number): number; coord(point: number[]): number[] };
  return [
    {
      type: "custom",
      name: one.name,
      data,
      itemStyle: { color: ink }, // the legend's, which takes it from the first series of a name
      silent: true,
      animation: false,
      tooltip: { show: false },
      encode: { x: 0, y: [1, 2] },
      z: 2,
      renderItem: (_: unknown, api: Api) => {
        const top = api.coord([api.value(0), api.value(2)]);
        const bottom = api.coord([api.value(0), api.value(1)]);
        const half = data.length > 60 ? 0 : 5;
        const bar = (x1: number, y1: number, x2: number, y2: number) => ({
          type: "line",
          shape: { x1, y1, x2, y2 },
          style: { stroke: ink, lineWidth: data.length > 60 ? 1 : 1.6, opacity: data.length > 60 ? 0.25 : 0.75 },
        });
        return {
          type: "group",
          children: [
            bar(top[0], top[1], bottom[0], bottom[1]),
            bar(top[0] - half, top[1], top[0] + half, top[1]),
            bar(bottom[0] - half, bottom[1], bottom[0] + half, bottom[1]),
          ],
        };
      },
    },
  ];
}

function tooltipOption(): object {
  return {
    backgroundColor: colour("--raised"),
    borderColor: colour("--line"),
    textStyle: { color: colour("--ink"), fontSize: 13, fontFamily: kFont },
    confine: true,
    extraCssText: "",
  };
}

function legendOption(names: string[]): object {
  return {
    type: "plain",
    top: 0,
    left: 0,
    right: 0,
    icon: "roundRect",
    itemWidth: 12,
    itemHeight: 12,
    itemGap: 14,
    data: names,
    textStyle: { color: colour("--ink"), fontSize: 12.5, fontFamily: kFont, width: 200, overflow: "truncate" },
    inactiveColor: colour("--line"),
  };
}

/** Rows that a legend takes at a width; ECharts lays it out but does not tell. */
function legendHeight(names: string[], width: number): number {
  let rows = 1;
  let at = 0;
  for (const name of names) {
    const wide = 34 + Math.min(200, name.length * 7);
    if (at > 0 && at + wide > width) {
      rows += 1;
      at = 0;
    }
    at += wide;
  }
  return names.length ? rows * 23 + 8 : 0;
}

export function drawChart(section: ChartSection, made: Frame): Drawn {
  const holder = element("div", {
    class: section.tall ? "plot tall" : "plot",
    tabindex: 0,
    role: "img",
    "aria-label": describe(section),
  });
  made.body.append(holder);
  const chart = echarts.init(holder, null, { renderer: "canvas", devicePixelRatio: Math.max(2, devicePixelRatio) });
  const x = scaledAxis(section.x, greatestOf(section.series, (s) => s.x));
  const y = scaledAxis(section.y, greatestOf(section.series, (s) => s.high ?? s.y));
  const options = { legend: [] as string[] };
  const draw = () => {
    const drawn = seriesOptions(section, x, y) as { name: string; type: string }[];
    const names = section.series.filter((s) => s.form !== "reference").map((s) => s.name);
    options.legend = names.length > 1 ? names : [];
    const hasAreas = section.series.some((s) => s.form === "area");
    const top = legendHeight(options.legend, holder.clientWidth) + 28;
    chart.setOption(
      {
        textStyle: { fontFamily: kFont },
        animation: false,
        grid: { left: 12, right: 24, top, bottom: 40, containLabel: true },
        legend: options.legend.length ? legendOption(options.legend) : undefined,
        tooltip: {
          ...tooltipOption(),
          trigger: hasAreas ? "axis" : "item",
          formatter: (given: unknown) => tipOf(section, drawn, x, given),
        },
        xAxis: axisOption(section.x, x, true),
        yAxis: axisOption(section.y, y, false),
        dataZoom: section.x.names
          ? []
          : [
              { type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false },
              { type: "inside", yAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", disabled: hasAreas, moveOnMouseWheel: false },
            ],
        series: drawn,
      },
      true,
    );
  };
  draw();
  if (!section.x.names) addZoom(chart, made, section.title);
  followKeys(chart, holder, section);
  return {
    header: ["series", "label", name(section.x), name(section.y), "low", "high"],
    rows: function* () {
      for (const one of section.series) {
        for (let i = 0; i < one.x.length; ++i) {
          const place = section.x.names ? section.x.names[one.x[i]] : one.x[i];
          yield [one.name, one.labels?.[i], place, one.y[i], one.low?.[i], one.high?.[i]];
        }
      }
    },
    redraw: () => {
      chart.resize();
      draw();
    },
  };
}

function name(axis: Axis): string {
  return axis.unit ? `${axis.label}, ${axis.unit}` : axis.label;
}

interface Hit {
  seriesName: string;
  seriesIndex: number;
  dataIndex: number;
  value: number[];
}

function tipOf(section: ChartSection, drawn: { name: string; type: string }[], x: Scaled, given: unknown): HTMLElement | string {
  if (Array.isArray(given)) {
    const hits = (given as Hit[]).filter((hit) => drawn[hit.seriesIndex]?.type !== "custom");
    if (!hits.length) return "";
    const place = hits[0].value[0] * x.factor;
    const lines = hits.map((hit) => {
      const one = section.series.find((s) => s.name === hit.seriesName);
      return `${hit.seriesName}: ${show(one?.y[hit.dataIndex], section.y.unit)}`;
    });
    const one = section.series.find((s) => s.name === hits[0].seriesName);
    const label = one?.labels?.[hits[0].dataIndex];
    return tooltipNode(label ?? `${section.x.label}: ${show(place, section.x.unit)}`, [
      ...(label ? [`${section.x.label}: ${show(place, section.x.unit)}`] : []),
      ...lines.reverse(),
    ]);
  }
  const hit = given as Hit;
  const one = section.series.find((s) => s.name === hit.seriesName);
  if (!one) return "";
  const label = one.labels?.[hit.dataIndex];
  const lines = pointLines(section, one, hit.dataIndex);
  return tooltipNode(label ?? one.name, label && section.series.length > 1 ? [one.name, ...lines] : lines);
}

function describe(section: ChartSection | HeatmapSection): string {
  const what = `${section.y.label} by ${section.x.label}`;
  const count = section.kind === "chart" ? section.series.map((s) => `${s.name}: ${s.x.length} points`).slice(0, 8).join(", ") : "";
  return `${section.title}. Chart of ${what}. ${count}. Arrow keys go from point to point; the data are in the CSV.`;
}

function addZoom(chart: echarts.ECharts, made: Frame, title: string): void {
  let begin = 0;
  let end = 100;
  chart.on("datazoom", () => {
    const zoom = (chart.getOption().dataZoom as { start: number; end: number }[])[0];
    begin = zoom.start;
    end = zoom.end;
  });
  const set = (from: number, to: number) => {
    begin = Math.max(0, from);
    end = Math.min(100, to);
    chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, start: begin, end });
  };
  const zoom = (factor: number) => {
    const middle = (begin + end) / 2;
    const half = Math.max(0.05, ((end - begin) * factor) / 2);
    set(middle - half, middle + half);
  };
  made.tools.append(
    button("\u2190", `Move "${title}" left`, () => set(begin - (end - begin) / 4, end - (end - begin) / 4)),
    button("\u2192", `Move "${title}" right`, () => set(begin + (end - begin) / 4, end + (end - begin) / 4)),
    button("+", `Zoom into "${title}"`, () => zoom(0.5)),
    button("\u2212", `Zoom out of "${title}"`, () => zoom(2)),
    button("All", `Show all of "${title}"`, () => {
      set(0, 100);
      chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 1, start: 0, end: 100 });
    }),
  );
}

/** Arrow keys: from point to point, and from series to series. */
function followKeys(chart: echarts.ECharts, holder: HTMLElement, section: ChartSection): void {
  const series = section.series.filter((one) => one.form !== "reference" && one.x.length > 0);
  let s = 0;
  let i = -1;
  holder.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const turn = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if ((step === undefined && turn === undefined) || series.length === 0) return;
    event.preventDefault();
    if (turn !== undefined) s = (s + turn + series.length) % series.length;
    const one = series[s];
    i = Math.min(one.x.length - 1, Math.max(0, i + (step ?? 0)));
    const drawn = (chart.getOption().series as { name: string; type: string }[]).findIndex(
      (d) => d.name === one.name && d.type !== "custom",
    );
    chart.dispatchAction({ type: "showTip", seriesIndex: drawn, dataIndex: i });
    announce([one.name, one.labels?.[i] ?? "", ...pointLines(section, one, i)].filter((t) => t).join("; "));
  });
}

export function drawHeatmap(section: HeatmapSection, made: Frame): Drawn {
  const holder = element("div", { class: "plot heat", tabindex: 0, role: "img", "aria-label": describe(section) });
  holder.style.height = `${Math.max(220, section.y.names.length * 30 + 140)}px`;
  made.body.append(holder);
  const chart = echarts.init(holder, null, { renderer: "canvas", devicePixelRatio: Math.max(2, devicePixelRatio) });
  const all = section.values.flat().filter((value): value is number => value !== null);
  const most = Math.max(...all, 0);
  const least = Math.min(...all, most);
  const scale = scaleOf(most, section.unit);
  const cells = section.values.flatMap((row, y) => row.map((value, x) => ({ x, y, value })));
  const tip = (x: number, y: number): HTMLElement => {
    const value = section.values[y][x];
    const lines = [value === null ? "no answer" : show(value, section.unit)];
    const low = section.low?.[y]?.[x];
    const high = section.high?.[y]?.[x];
    if (value !== null && low != null && high != null) lines.push(`90 % interval: ${showRange(low, high, section.unit, value)}`);
    const note = section.notes?.[y]?.[x];
    if (note) lines.push(note);
    return tooltipNode(`${section.y.names[y]} / ${section.x.names[x]}`, lines);
  };
  const draw = () => {
    const axis = (label: string, names: string[], isX: boolean) => ({
      ...axisOption({ label, unit: "", names }, { factor: 1, name: label }, isX),
      splitArea: { show: false },
      axisLabel: { color: colour("--soft"), fontSize: 12, interval: 0, rotate: isX && names.length > 8 ? 35 : 0, width: 160, overflow: "truncate" },
      nameGap: isX && names.length > 8 ? 70 : 30,
    });
    chart.setOption(
      {
        textStyle: { fontFamily: kFont },
        animation: false,
        grid: { left: 12, right: 18, top: 28, bottom: 90, containLabel: true },
        tooltip: { ...tooltipOption(), formatter: (hit: { value: number[] }) => tip(hit.value[0], hit.value[1]) },
        xAxis: axis(section.x.label, section.x.names, true),
        yAxis: { ...axis(section.y.label, section.y.names, false), inverse: true, nameLocation: "start" },
        visualMap: {
          min: least / scale.factor,
          max: Math.max(most, least + 1e-12) / scale.factor,
          calculable: true,
          orient: "horizontal",
          left: "center",
          bottom: 0,
          itemHeight: 160,
          text: [scale.unit, ""],
          textStyle: { color: colour("--soft") },
          inRange: { color: [colour("--heat0"), colour("--heat1"), colour("--heat2")] },
          formatter: (value: number) => digits(value),
        },
        series: [
          {
            type: "heatmap",
            data: cells.filter((c) => c.value !== null).map((c) => [c.x, c.y, c.value! / scale.factor]),
            label: { show: cells.length <= 400, formatter: (hit: { value: number[] }) => digits(hit.value[2]), fontSize: 11 },
            itemStyle: { borderColor: colour("--paper"), borderWidth: 2 },
          },
        ],
      },
      true,
    );
  };
  draw();
  let x = 0;
  let y = 0;
  holder.addEventListener("keydown", (event) => {
    const move = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (!move) return;
    event.preventDefault();
    x = Math.min(section.x.names.length - 1, Math.max(0, x + move[0]));
    y = Math.min(section.y.names.length - 1, Math.max(0, y + move[1]));
    announce(tip(x, y).innerText || (tip(x, y).textContent ?? ""));
  });
  return {
    header: [section.y.label, section.x.label, `value, ${section.unit}`, "low", "high", "note"],
    rows: () => cells.map((c) => [section.y.names[c.y], section.x.names[c.x], c.value, section.low?.[c.y]?.[c.x], section.high?.[c.y]?.[c.x], section.notes?.[c.y]?.[c.x]]),
    redraw: () => {
      chart.resize();
      draw();
    },
  };
}
