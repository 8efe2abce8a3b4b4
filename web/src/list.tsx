// A list of any length: only the rows that can be seen are in the page.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const OVERSCAN = 10;

interface Props {
  count: number;
  rowHeight: number;
  /** Index of the selected row, or -1. */
  selected: number;
  label: string;
  render: (index: number) => ComponentChildren;
  rowClass: (index: number) => string;
  onSelect: (index: number) => void;
  /** Keep the end in view while the list grows. */
  isFollowing?: boolean;
  class?: string;
}

export function VirtualList(props: Props) {
  const { count, rowHeight, selected } = props;
  const box = useRef<HTMLDivElement>(null);
  const [first, setFirst] = useState(0);
  const [height, setHeight] = useState(600);

  useLayoutEffect(() => {
    const element = box.current!;
    const measure = () => setHeight(element.clientHeight);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // A selected row is always in view.
  useLayoutEffect(() => {
    const element = box.current!;
    if (selected < 0) return;
    const top = selected * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) {
      element.scrollTop = top + rowHeight - element.clientHeight;
    }
  }, [selected, rowHeight]);

  useEffect(() => {
    if (props.isFollowing) box.current!.scrollTop = count * rowHeight;
  }, [props.isFollowing, count, rowHeight]);

  const onScroll = () => setFirst(Math.floor(box.current!.scrollTop / rowHeight));
  const from = Math.max(0, Math.min(first, count - 1) - OVERSCAN);
  const to = Math.min(count, first + Math.ceil(height / rowHeight) + OVERSCAN);
  const rows: ComponentChildren[] = [];
  for (let index = from; index < to; index += 1) {
    rows.push(
      <div
        key={index}
        id={`row-${index}`}
        role="option"
        aria-selected={index === selected}
        aria-setsize={count}
        aria-posinset={index + 1}
        class={`row ${props.rowClass(index)}${index === selected ? " selected" : ""}`}
        style={{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }}
        onClick={() => props.onSelect(index)}
      >
        {props.render(index)}
      </div>,
    );
  }
  return (
    <div
      ref={box}
      class={`list ${props.class ?? ""}`}
      role="listbox"
      tabIndex={0}
      aria-label={props.label}
      aria-activedescendant={selected >= from && selected < to ? `row-${selected}` : undefined}
      onScroll={onScroll}
    >
      <div class="list-height" role="presentation" style={{ height: `${count * rowHeight}px` }}>
        {rows}
      </div>
    </div>
  );
}
