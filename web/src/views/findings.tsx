import { useMemo } from "preact/hooks";
import type { Row } from "../rows";
import { number, plain } from "../text";

const DEGREES = ["wrong", "tolerated", "unknown"] as const;

interface Finding {
  path: string;
  message: string;
  /** Index of `DEGREES`. */
  degree: number;
  method: string;
  numbers: number[];
}

const MAX_FINDINGS = 500;
const MAX_LINKS = 12;

/** Findings that differ only in an index or a frame are one. */
function findingsOf(rows: Row[], indices: number[]): Finding[] {
  const found = new Map<string, Finding>();
  for (const index of indices) {
    const row = rows[index]!;
    const unknown = row.unknown.map((path) => ({ path, message: "The schema does not know it.", degree: 2 }));
    const problems = row.problems.map(({ path, message, isTolerated }) => ({ path, message, degree: isTolerated ? 1 : 0 }));
    for (const { path, message, degree } of [...problems, ...unknown]) {
      const general = path.replace(/\[\d+\]/g, "[…]");
      const key = JSON.stringify([row.method, general, message]);
      const finding = found.get(key);
      if (finding) finding.numbers.push(row.number);
      else found.set(key, { path: general, message, degree, method: row.method || row.kind, numbers: [row.number] });
    }
  }
  return [...found.values()].sort(
    (one, other) => one.degree - other.degree || other.numbers.length - one.numbers.length,
  );
}

export function Findings({ rows, indices, onSelect }: { rows: Row[]; indices: number[]; onSelect: (number: number) => void }) {
  const findings = useMemo(() => findingsOf(rows, indices), [rows, indices]);
  if (!findings.length) {
    return (
      <div class="panel empty">
        <p class="big">No findings</p>
        <p class="note">Every frame that is shown matches the schema of its version.</p>
      </div>
    );
  }
  return (
    <div class="panel findings" tabIndex={0} role="region" aria-label="Schema findings">
      {findings.slice(0, MAX_FINDINGS).map((finding) => (
        <article class={`finding-card ${DEGREES[finding.degree]}`}>
          <h2>
            <bdi>{plain(finding.method)}</bdi> <code>{plain(finding.path)}</code>
          </h2>
          <p>
            <bdi>{plain(finding.message)}</bdi>
          </p>
          <p class="links">
            <span class="note">
              {finding.degree === 1 ? "tolerated, " : ""}
              {number(finding.numbers.length)} {finding.numbers.length === 1 ? "frame" : "frames"}:
            </span>
            {finding.numbers.slice(0, MAX_LINKS).map((each) => (
              <button type="button" class="link" onClick={() => onSelect(each)}>
                #{each}
              </button>
            ))}
            {finding.numbers.length > MAX_LINKS && <span class="note">…</span>}
          </p>
        </article>
      ))}
      {findings.length > MAX_FINDINGS && (
        <p class="note">{number(findings.length - MAX_FINDINGS)} more kinds of findings are not shown; use a filter.</p>
      )}
    </div>
  );
}
