import { useEffect, useState } from "preact/hooks";
import { LongText } from "../json";
import { VirtualList } from "../list";
import type { DiffRow, Recording, RecordingDiff } from "../source";
import { number, plain } from "../text";
import { ARROWS } from "./timeline";

interface Props {
  recording: string;
  recordings: Recording[];
  load: (first: string, second: string) => Promise<RecordingDiff>;
  onSelect: (number: number) => void;
}

const MARKS = { same: "", changed: "~", only_a: "−", only_b: "+" };

export function Diff({ recording, recordings, load, onSelect }: Props) {
  const others = recordings.filter((each) => each.name !== recording);
  const [other, setOther] = useState(others[0]?.name ?? "");
  const [diff, setDiff] = useState<RecordingDiff | null>(null);
  const [failure, setFailure] = useState("");
  const [selected, setSelected] = useState(-1);
  useEffect(() => {
    let isCurrent = true;
    setDiff(null);
    setFailure("");
    setSelected(-1);
    if (other) {
      load(recording, other).then(
        (found) => isCurrent && setDiff(found),
        (reason: unknown) => isCurrent && setFailure(reason instanceof Error ? reason.message : String(reason)),
      );
    }
    return () => {
      isCurrent = false;
    };
  }, [recording, other]);

  const counts = diff?.counts ?? {};
  const row = diff?.rows[selected];
  return (
    <>
      <div class="toolbar">
        <label>
          compare with{" "}
          <select value={other} onChange={(event) => setOther(event.currentTarget.value)}>
            {others.map((each) => (
              <option value={each.name}>{plain(each.name)}</option>
            ))}
          </select>
        </label>
        {diff && (
          <span class="note" role="status">
            {number(counts.changed ?? 0)} changed, {number(counts.only_a ?? 0)} only here, {number(counts.only_b ?? 0)} only there,{" "}
            {number(counts.same ?? 0)} equal
            {diff.is_approximate && "; there may be fewer differences"}
            {diff.is_cut && "; only the beginning was compared"}
          </span>
        )}
      </div>
      {failure && (
        <p class="alert" role="alert">
          {plain(failure)}
        </p>
      )}
      {!diff && !failure && <p class="note panel">Comparing …</p>}
      {diff && (
        <VirtualList
          class="diff"
          count={diff.rows.length}
          rowHeight={30}
          selected={selected}
          label="Differences"
          onSelect={setSelected}
          rowClass={(index) => diff.rows[index]!.kind}
          render={(index) => <DiffLine row={diff.rows[index]!} />}
        />
      )}
      {row && row.kind !== "same" && (
        <section class="diff-details" tabIndex={0} aria-label="Difference">
          <div class="actions">
            {row.a !== undefined && (
              <button type="button" onClick={() => onSelect(row.a!)}>
                Frame <span class="number">#{row.a}</span> here
              </button>
            )}
            {row.b !== undefined && <span class="note">frame #{row.b} there</span>}
          </div>
          {(row.paths ?? []).map(([path, one, two]) => (
            <div class="pair">
              <code>{plain(path)}</code>
              {one !== null && (
                <pre class="old">
                  <LongText text={one} />
                </pre>
              )}
              {two !== null && (
                <pre class="new">
                  <LongText text={two} />
                </pre>
              )}
            </div>
          ))}
        </section>
      )}
    </>
  );
}

function DiffLine({ row }: { row: DiffRow }) {
  if (row.kind === "same") {
    const count = row.count ?? 1;
    return <span class="equal">{count === 1 ? "1 equal step" : `${number(count)} equal steps`}</span>;
  }
  const [path, one, two] = row.paths?.[0] ?? ["", null, null];
  const more = (row.paths?.length ?? 0) - 1;
  return (
    <>
      <span class="mark">{MARKS[row.kind]}</span>
      <span class="number">{row.a ?? ""}</span>
      <span class="number">{row.b ?? ""}</span>
      <span class="name">
        {ARROWS[row.dir ?? ""]} <bdi>{plain(row.name ?? "")}</bdi> {row.is_answer && <span class="note">response</span>}
      </span>
      <span class="preview">
        {row.kind === "changed" ? (
          <>
            <span class="note">{plain(path)}</span> <span class="old">{plain((one ?? "").slice(0, 80))}</span> <span class="new">{plain((two ?? "").slice(0, 80))}</span>
            {more > 0 && <span class="note"> and {more} more</span>}
          </>
        ) : (
          <bdi>{plain((one ?? two ?? "").slice(0, 200))}</bdi>
        )}
      </span>
    </>
  );
}
