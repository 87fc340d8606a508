import { queryOptions } from '@tanstack/react-query';
import { type Answer, answer, api } from '../../api/client.ts';
import type { Shade } from '../../ui/chart-shades.ts';
import { visibleLine } from '../../ui/visible-text.ts';
import { isFailing } from '../destinations/history.ts';
import { type RangeSearch, timelineRange } from './queries.ts';

type Report = Answer<'/api/v1/timeline', 'get'>;

/**
 * An outage: a time in which requests to a destination failed and nothing was delivered. Milliseconds; `to`
 * is the end of its last step.
 */
export interface Outage {
  readonly destination: string;
  readonly from: number;
  readonly to: number;
  /** True when nothing was delivered between `to` and the end of the range. */
  readonly isOpen: boolean;
}

/** Deliveries and failed requests of each destination in a range, read again at every new step. */
export function outagesQuery(search: RangeSearch) {
  const { key, query, isFixed } = timelineRange(search);
  return queryOptions({
    queryKey: ['timeline', 'outages', key],
    queryFn: async ({ signal }): Promise<readonly Outage[]> => {
      const params = { query: { ...query, series: 'delivered,failed', by: 'destination' as const } };
      return outagesOf(await answer(api.GET('/api/v1/timeline', { params, signal })));
    },
    refetchInterval: isFixed ? false : 10_000,
  });
}

/**
 * The outages of every destination. A step without a request, or while the server did not run, is part of an
 * outage that continues after it: a failing endpoint is probed seldom.
 */
export function outagesOf({ from, step, groups }: Report): Outage[] {
  const begin = Date.parse(from);
  return groups.flatMap(({ destination = '', series }) => {
    const delivered = series['delivered'] ?? [];
    const outages: Outage[] = [];
    let first: number | undefined;
    let last = 0;
    const end = (isOpen: boolean) => {
      if (first === undefined) return;
      const at = (index: number) => begin + index * step * 1000;
      outages.push({ destination, from: at(first), to: at(last + 1), isOpen });
      first = undefined;
    };
    delivered.forEach((count, index) => {
      if (isFailing(count, series['failed']?.[index])) {
        first ??= index;
        last = index;
      } else if (count !== null && count > 0) end(false);
    });
    end(true);
    return outages;
  });
}

/** A range of time, in milliseconds. */
interface Span {
  readonly begin: number;
  readonly end: number;
}

/**
 * Extends outages that go on to the end of the range, and back to when the destination began to fail, also
 * where its endpoint was asked seldom. `failing` has the destinations that fail now, and since when.
 */
export function outagesUntil(
  outages: readonly Outage[],
  { begin, end, failing }: Span & { readonly failing: ReadonlyMap<string, number> },
): Outage[] {
  return outages.map((outage) => {
    const since = failing.get(outage.destination);
    if (!outage.isOpen || since === undefined) return { ...outage, isOpen: false };
    return { ...outage, from: Math.min(outage.from, Math.max(begin, since)), to: Math.max(end, outage.to) };
  });
}

/** Share of a range from which an outage counts as lasting all of it. */
const WHOLE = 0.95;

/**
 * Tells whether an outage covers the range: shading it would colour the whole chart until somebody repairs
 * it.
 */
export function isWhole({ from, to }: Outage, { begin, end }: Span): boolean {
  return to - from >= WHOLE * (end - begin);
}

/** Combines overlapping outages into one shade, which names its destination or counts them. */
export function shadesOf(outages: readonly Outage[]): Shade[] {
  const shades: { from: number; to: number; names: Set<string> }[] = [];
  for (const { from, to, destination } of [...outages].sort((a, b) => a.from - b.from)) {
    const before = shades.at(-1);
    if (before === undefined || from > before.to) shades.push({ from, to, names: new Set([destination]) });
    else {
      before.to = Math.max(before.to, to);
      before.names.add(destination);
    }
  }
  return shades.map(({ from, to, names: [name = '', ...more] }) => ({
    from,
    to,
    label: more.length === 0 ? `${visibleLine(name, 24)} fails` : `${more.length + 1} destinations fail`,
  }));
}

/** Most destinations named in a sentence; the others are counted. */
const MOST_NAMED = 4;

/**
 * The outages in words: `crm 14:18 – 14:32, lake from 14:20 on and 2 others`. The latest outage comes first.
 * Of several outages of a destination the last is named and the others are counted. Empty without an outage.
 */
export function outageText(outages: readonly Outage[], timeOf: (time: number) => string): string {
  const byName = Map.groupBy(
    [...outages].sort((a, b) => b.to - a.to || a.from - b.from),
    ({ destination }) => destination,
  );
  const named = [...byName].slice(0, MOST_NAMED).map(([name, [latest, ...earlier]]) => {
    if (latest === undefined) return '';
    const { from, to, isOpen } = latest;
    const span = isOpen ? `from ${timeOf(from)} on` : `${timeOf(from)} – ${timeOf(to)}`;
    const times = earlier.length === 1 ? 'once before' : `${earlier.length} times before`;
    return `${visibleLine(name, 60)} ${span}${earlier.length === 0 ? '' : ` and ${times}`}`;
  });
  const others = byName.size - named.length;
  if (others > 0) named.push(others === 1 ? 'one other' : `${others} others`);
  return named.join('; ');
}
