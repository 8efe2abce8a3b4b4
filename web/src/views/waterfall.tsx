import { useMemo, useState } from "preact/hooks";
import { VirtualList } from "../list";
import { type Row } from "../rows";
import { duration, plain, seconds } from "../text";
import { classOf, type ListProps } from "./timeline";

interface Bar {
  row: Row;
  latency: number | null;
}

export function Waterfall({ rows, indices, selected, onSelect, answer }: ListProps & { answer: (row: Row) => Row | undefined }) {
  const [order, setOrder] = useState<"time" | "duration">("time");
  const end = rows.at(-1)?.t ?? 0;
  const bars = useMemo(() => {
    const found: Bar[] = [];
    for (const index of indices) {
      const row = rows[index]!;
      if (row.kind === "request") found.push({ row, latency: answer(row)?.latency ?? null });
    }
    const weight = (bar: Bar) => bar.latency ?? end - bar.row.t;
    return order === "time" ? found : found.sort((one, other) => weight(other) - weight(one));
  }, [rows, indices, order, end]);
  const begin = rows[0]?.t ?? 0;
  const longest = bars.reduce((most, bar) => Math.max(most, bar.latency ?? end - bar.row.t), 0) || 1;
  const span = order === "time" ? end - begin || 1 : longest;
  const selectedRow = selected < 0 ? undefined : rows[indices[selected]!];
  const wanted = selectedRow && (selectedRow.kind === "request" ? selectedRow.number : selectedRow.answers);
  const chosen = useMemo(() => bars.findIndex((bar) => bar.row.number === wanted), [bars, wanted]);
  return (
    <>
      <div class="toolbar">
        <div role="group" aria-label="Order" class="choice">
          <button type="button" aria-pressed={order === "time"} onClick={() => setOrder("time")}>
            by time
          </button>
          <button type="button" aria-pressed={order === "duration"} onClick={() => setOrder("duration")}>
            slowest first
          </button>
        </div>
        <span class="note">
          {bars.length.toLocaleString("en-US")} requests; the scale is {duration(span)}
        </span>
      </div>
      <VirtualList
        class="waterfall"
        count={bars.length}
        rowHeight={30}
        selected={chosen}
        label="Requests with their latency"
        onSelect={(index) => onSelect(bars[index]!.row.number)}
        rowClass={(index) => classOf(bars[index]!.row)}
        render={(index) => {
          const { row, latency } = bars[index]!;
          const length = latency ?? end - row.t;
          const left = order === "time" ? ((row.t - begin) / span) * 100 : 0;
          const width = Math.min(100 - left, (length / span) * 100);
          const isLate = left > 60;
          return (
            <>
              <span class="time">{seconds(row.t)}</span>
              <span class="name">
                <bdi>{plain(row.method)}</bdi>
              </span>
              <span class="track">
                <span class={latency === null ? "bar open" : "bar"} style={{ left: `${left}%`, width: `max(3px, ${width}%)` }} />
                <span class="value" style={isLate ? { right: `${100 - left}%` } : { left: `min(${left + width}%, calc(100% - 9em))` }}>
                  {latency === null ? "no response" : duration(latency)}
                </span>
              </span>
            </>
          );
        }}
      />
    </>
  );
}
