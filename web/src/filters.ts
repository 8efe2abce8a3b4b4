import type { Direction, Kind, Row } from "./rows";

export interface Filters {
  method: string;
  session: string;
  direction: Direction;
  kind: Kind | "";
  onlyProblems: boolean;
  text: string;
}

export const NO_FILTERS: Filters = {
  method: "",
  session: "",
  direction: "",
  kind: "",
  onlyProblems: false,
  text: "",
};

export function isFiltered(filters: Filters): boolean {
  return (Object.keys(NO_FILTERS) as (keyof Filters)[]).some((key) => filters[key] !== NO_FILTERS[key]);
}

/** Return the indices of the rows that match; `found` are the numbers whose whole content has the text. */
export function select(rows: Row[], filters: Filters, found: ReadonlySet<number>): number[] {
  const text = filters.text.toLowerCase();
  const indices: number[] = [];
  for (let index = 0; index < rows.length; index += 1) {
    const row = rows[index]!;
    if (filters.method && row.method !== filters.method) continue;
    if (filters.session && row.session !== filters.session) continue;
    if (filters.direction && row.dir !== filters.direction) continue;
    if (filters.kind && row.kind !== filters.kind) continue;
    if (filters.onlyProblems && row.problems.length === 0) continue;
    if (text && !found.has(row.number) && !hasText(row, text)) continue;
    indices.push(index);
  }
  return indices;
}

function hasText(row: Row, text: string): boolean {
  return (
    row.preview.toLowerCase().includes(text) || row.method.includes(text) || row.update.includes(text) || row.session.includes(text)
  );
}
