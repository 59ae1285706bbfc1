// A table that sorts by its heads, filters by words, and shows a screenful of rows until asked for more.
import type { TableSection } from "./data.js";
import { announce, button, element } from "./dom.js";
import { digits, percent, scaleOf, show, withUnit } from "./format.js";
import type { Drawn, Frame } from "./section.js";

type Row = TableSection["rows"][number];
const kFirst = 50;

export function drawTable(section: TableSection, made: Frame): Drawn {
  const { columns, rows } = section;
  const greatest = columns.map((column, c) =>
    column.unit === undefined
      ? 0
      : rows.reduce((most, row) => Math.max(most, Math.abs(Number(row[c] ?? 0)) || 0), 0),
  );
  const scales = columns.map((column, c) => column.unit === "count" ? { factor: 1, unit: "" } : scaleOf(greatest[c], column.unit ?? ""));
  const lengths = columns.map((_, c) =>
    rows.reduce((most, row) => Math.max(most, String(row[c] ?? "").length), 0),
  );
  const words = rows.map((row) => row.map((cell) => String(cell ?? "")).join(" ").toLowerCase());
  let sort = section.sort ?? -1;
  let falls = true;
  let wanted = "";
  let most = kFirst;
  let shown: Row[] = rows;

  const tbody = element("tbody");
  const count = element("span", { class: "count", role: "status" });
  const more = button("Show all rows", `Show all rows of "${section.title}"`, () => {
    most = Infinity;
    fill();
  });
  const heads = columns.map((column, c) => {
    const name = withUnit(column.name, column.unit === undefined ? "" : scales[c].unit);
    const act = () => {
      falls = sort === c ? !falls : column.unit !== undefined;
      sort = c;
      update();
      announce(`${section.title}: sorted by ${column.name}, ${falls ? "greatest first" : "least first"}`);
    };
    const head = element("th", { scope: "col", class: column.unit === undefined ? "" : "number" });
    const sorter = element("button", { type: "button" }, name);
    sorter.addEventListener("click", act);
    head.append(sorter);
    return head;
  });

  const cellNode = (row: Row, c: number): HTMLElement => {
    const cell = row[c];
    const unit = columns[c].unit;
    if (unit === undefined || typeof cell === "string") {
      return element("td", { class: lengths[c] <= 34 ? "short" : lengths[c] > 60 ? "long" : "" }, String(cell ?? ""));
    }
    if (cell === null) return element("td", { class: "number" }, "\u2013");
    const text = unit === "share" ? percent(cell) : unit === "count" ? cell.toLocaleString("en-US") : digits(cell / scales[c].factor);
    const node = element("td", { class: "number", title: show(cell, unit) }, text);
    if (columns[c].bar && greatest[c] > 0) {
      node.classList.add("with-bar");
      node.style.setProperty("--part", `${(100 * Math.abs(cell)) / greatest[c]}%`);
    }
    return node;
  };

  const fill = () => {
    tbody.replaceChildren(
      ...shown
        .slice(0, most)
        .map((row) => element("tr", {}, ...columns.map((_, c) => cellNode(row, c)))),
    );
    const some = shown.length === rows.length ? "" : ` of ${rows.length}`;
    count.textContent = `${shown.length}${some} ${shown.length === 1 && !some ? "row" : "rows"}`;
    more.hidden = shown.length <= most;
  };
  const update = () => {
    const terms = wanted.split(/\s+/).filter((term) => term);
    shown = rows.filter((_, r) => terms.every((term) => words[r].includes(term)));
    if (sort >= 0) {
      const sign = falls ? -1 : 1;
      // Rows without a value come last, whichever way.
      shown.sort((a, b) => {
        const left = a[sort];
        const right = b[sort];
        if (left === null || right === null) return Number(left === null) - Number(right === null);
        if (typeof left === "number" && typeof right === "number") return sign * (left - right);
        return sign * String(left).localeCompare(String(right), "en", { numeric: true });
      });
    }
    heads.forEach((head, c) => {
      if (c === sort) head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    fill();
  };

  if (rows.length > 5) {
    const filter = element("input", {
      type: "search",
      placeholder: "Filter: words that a row has",
      "aria-label": `Filter the rows of "${section.title}"`,
    });
    filter.addEventListener("input", () => {
      wanted = filter.value.toLowerCase();
      most = kFirst;
      update();
    });
    made.tools.prepend(filter);
  }
  made.body.append(
    element(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": section.title },
      element(
        "table",
        { class: "data" },
        element("caption", { class: "unseen" }, section.title),
        element("thead", {}, element("tr", {}, ...heads)),
        tbody,
      ),
    ),
    element("p", { class: "below" }, count, " ", more),
  );
  update();
  return {
    header: columns.map((column) => withUnitName(column.name, column.unit)),
    rows: () => shown,
  };
}

function withUnitName(name: string, unit: string | undefined): string {
  return unit === undefined || unit === "" || unit === "count" ? name : `${name}, ${unit}`;
}
