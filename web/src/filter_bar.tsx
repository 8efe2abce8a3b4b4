import type { RefObject } from "preact";
import { type Filters, isFiltered, NO_FILTERS } from "./filters";
import type { Direction, Kind, RowStore } from "./rows";
import { number, plain } from "./text";

interface Props {
  filters: Filters;
  store: RowStore;
  /** Changes when there are more rows. */
  version: number;
  isSearching: boolean;
  searchBox: RefObject<HTMLInputElement | null>;
  onChange: (filters: Filters) => void;
}

const MAX_CHOICES = 500;

export function FilterBar({ filters, store, isSearching, searchBox, onChange }: Props) {
  const change = (part: Partial<Filters>) => onChange({ ...filters, ...part });
  return (
    <div class="filters" role="search">
      <div class="search">
        <input
          ref={searchBox}
          type="search"
          placeholder="Search in all frames"
          aria-label="Search in all frames"
          value={filters.text}
          onInput={(event) => change({ text: event.currentTarget.value })}
        />
        {isSearching && <span class="note">searching …</span>}
      </div>
      <Choice label="method" value={filters.method} counts={store.methods} onChange={(method) => change({ method })} />
      <Choice label="kind" value={filters.kind} counts={store.kinds} onChange={(kind) => change({ kind: kind as Kind | "" })} />
      {(store.sessions.size > 1 || filters.session) && (
        <Choice label="session" value={filters.session} counts={store.sessions} onChange={(session) => change({ session })} />
      )}
      <select aria-label="receiver" class={filters.direction ? "set" : ""} value={filters.direction} onChange={(event) => change({ direction: event.currentTarget.value as Direction })}>
        <option value="">both directions</option>
        <option value="to_agent">→ to the agent</option>
        <option value="to_client">← to the client</option>
      </select>
      <label class={filters.onlyProblems ? "check set" : "check"}>
        <input type="checkbox" checked={filters.onlyProblems} onChange={(event) => change({ onlyProblems: event.currentTarget.checked })} />
        only findings
      </label>
      {isFiltered(filters) && (
        <button type="button" class="link" onClick={() => onChange(NO_FILTERS)}>
          clear
        </button>
      )}
    </div>
  );
}

function Choice({ label, value, counts, onChange }: { label: string; value: string; counts: Map<string, number>; onChange: (value: string) => void }) {
  const choices = [...counts].sort(([one], [other]) => (one < other ? -1 : 1)).slice(0, MAX_CHOICES);
  return (
    <select aria-label={label} class={value ? "set" : ""} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      <option value="">{`all ${label}s`}</option>
      {choices.map(([name, count]) => (
        <option value={name}>{`${plain(name)} (${number(count)})`}</option>
      ))}
    </select>
  );
}
