import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { type KeyboardEvent, useLayoutEffect, useState } from 'react';
import { useShortcut } from './shortcuts.ts';

/** A table with more rows than this draws only those on the screen. */
const DRAWN = 80;

/** Tells whether an element in a row handles its own clicks, as links and buttons do. */
export function isControl(target: EventTarget): boolean {
  return target instanceof Element && target.closest('a, button, input, select') !== null;
}

/** The rows on the screen, and the heights of the rows before and after them. */
export function useWindow(count: number, body: React.RefObject<HTMLTableSectionElement | null>) {
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const box = body.current?.getBoundingClientRect();
    if (box !== undefined) setTop(box.top + window.scrollY);
  }, [body]);
  const virtualizer = useWindowVirtualizer({
    count,
    estimateSize: () => (matchMedia('(max-width: 720px)').matches ? 52 : 32),
    overscan: 12,
    scrollMargin: top,
    enabled: count > DRAWN,
  });
  const items = virtualizer.getVirtualItems();
  const [first, last] = [items[0], items.at(-1)];
  if (count <= DRAWN || first === undefined || last === undefined) {
    return { slice: { from: 0, to: count <= DRAWN ? count : DRAWN }, before: 0, after: 0, reveal: () => {} };
  }
  return {
    slice: { from: first.index, to: last.index + 1 },
    before: first.start - top,
    after: virtualizer.getTotalSize() - (last.end - top),
    reveal: (index: number) => virtualizer.scrollToIndex(index),
  };
}

interface RovingOptions {
  readonly ids: readonly string[];
  readonly selected: string | undefined;
  readonly body: React.RefObject<HTMLTableSectionElement | null>;
  readonly reveal: (index: number) => void;
}

/** Keeps one row of the table in the tab order; the others are reached from it. */
export function useRovingFocus({ ids, selected, body, reveal }: RovingOptions) {
  const [focused, setFocused] = useState<string>();
  const wanted = [focused, selected].find((id) => id !== undefined && ids.includes(id));
  const active = wanted ?? ids[0];
  const go = (index: number): void => {
    const id = ids[Math.max(0, Math.min(index, ids.length - 1))];
    if (id === undefined) return;
    setFocused(id);
    reveal(ids.indexOf(id));
    requestAnimationFrame(() => {
      const row = [...(body.current?.rows ?? [])].find((candidate) => candidate.dataset['row'] === id);
      row?.focus({ preventScroll: false });
    });
  };
  const at = active === undefined ? -1 : ids.indexOf(active);
  const isFocusInside = (): boolean => body.current?.contains(document.activeElement) ?? false;
  const step = (by: number): void => go(wanted === undefined && !isFocusInside() ? 0 : at + by);
  useShortcut('j', 'Next row', () => step(1));
  useShortcut('k', 'Previous row', () => step(-1));
  const targets: Readonly<Record<string, number>> = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    Home: 0,
    End: ids.length - 1,
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const target = targets[event.key];
    if (target === undefined || isControl(event.target)) return;
    event.preventDefault();
    go(target);
  };
  return { active, setFocused, onKeyDown };
}
