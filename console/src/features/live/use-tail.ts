import { useEffect, useRef, useState } from 'react';
import { followStream } from '../../api/event-stream.ts';
import { type Flow, LiveRing, type LiveRow } from './live-ring.ts';

/** Filter that the server applies. */
export interface TailFilter {
  readonly source?: string;
  readonly type?: string;
  readonly destination?: string;
  readonly failed?: string;
}

interface Tail {
  readonly rows: readonly LiveRow[];
  readonly flow: Flow;
  /** Number of rows at the time of this picture. */
  readonly count: number;
  /** Number of rows that came since the page was paused. */
  readonly missed: number;
  readonly isOpen: boolean;
  /** Reason why there is no stream at the moment. */
  readonly waiting?: string;
}

/** Milliseconds between two updates of the page, at least. */
const PAINT = 200;
/** Calls per second that the server sends, evenly chosen; it counts the others. */
const CALLS_PER_SECOND = 50;
const NOTHING: Tail = { rows: [], flow: { shown: 0, passed: 0 }, count: 0, missed: 0, isOpen: false };

/** Follows the live tail with a filter. While paused, the rows stay and new ones are only counted. */
export function useTail(filter: TailFilter, isPaused: boolean): Tail {
  const [tail, setTail] = useState(NOTHING);
  const paused = useRef(isPaused);
  paused.current = isPaused;
  const asked = Object.entries(filter).filter(([, value]) => value !== undefined);
  const query = new URLSearchParams([...asked, ['max', String(CALLS_PER_SECOND)]]).toString();

  useEffect(() => {
    const ring = new LiveRing();
    const abort = new AbortController();
    let link: Pick<Tail, 'isOpen' | 'waiting'> = { isOpen: false };
    setTail(NOTHING);
    const onEvent = ({ name, data }: { name: string; data: string }): void =>
      ring.take(name, JSON.parse(data), Date.now());
    void followStream(`/api/v1/tail?${query}`, { onEvent, onState: (state) => (link = state) }, abort.signal);
    const timer = setInterval(
      () => setTail((before) => painted(before, { ring, link, isPaused: paused.current })),
      PAINT,
    );
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, [query]);

  return tail;
}

interface PaintContext {
  readonly ring: LiveRing;
  readonly link: Pick<Tail, 'isOpen' | 'waiting'>;
  readonly isPaused: boolean;
}

/** The next picture; the same object when nothing has changed, so that React draws nothing. */
function painted(before: Tail, { ring, link, isPaused }: PaintContext): Tail {
  const flow = ring.flow(Date.now());
  const { rows, count } = isPaused ? before : { rows: ring.rows(), count: ring.count };
  const missed = ring.count - count;
  const isSame =
    sameRows(rows, before.rows) &&
    count === before.count &&
    missed === before.missed &&
    flow.shown === before.flow.shown &&
    flow.passed === before.flow.passed &&
    link.isOpen === before.isOpen &&
    link.waiting === before.waiting;
  return isSame ? before : { rows, flow, count, missed, ...link };
}

function sameRows(one: readonly LiveRow[], other: readonly LiveRow[]): boolean {
  return one.length === other.length && one.every((row, index) => row === other[index]);
}
