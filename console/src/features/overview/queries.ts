import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { type Answer, answer, api } from '../../api/client.ts';
import { serverNow } from '../../api/server-time.ts';

/** Numbers over time of everything: the one group of a timeline that is not divided. */
export interface Numbers {
  /** The start of each step, in milliseconds. */
  readonly times: readonly number[];
  /** Seconds. */
  readonly step: number;
  readonly totals: Group['totals'];
  readonly series: Group['series'];
  /** Rates per second: of the last ten seconds, or the average of a past range. */
  readonly rates: Group['now'];
  /** The past range of the numbers; absent when the range ends now. */
  readonly past?: { readonly from: string; readonly to: string };
}

type Report = Answer<'/api/v1/timeline', 'get'>;
type Group = Report['groups'][number];

/** Ranges that end now, as the server takes them and in milliseconds, and their steps, in seconds. */
export const RANGES = [
  { value: '15m', label: '15 min', length: 15 * 60_000, step: 10 },
  { value: '1h', label: '1 h', length: 3_600_000, step: 60 },
  { value: '24h', label: '24 h', length: 86_400_000, step: 1_200 },
  { value: '7d', label: '7 d', length: 7 * 86_400_000, step: 7_200 },
] as const;

/** The range as it is in the URL. */
export interface RangeSearch {
  readonly range?: string;
  /** ISO 8601; both, or none. */
  readonly from?: string;
  readonly to?: string;
}

/**
 * Milliseconds between two reads: numbers over ten seconds change slowly, and a new user waits for the first
 * event.
 */
const REFRESH = 5_000;
const REFRESH_OF_NOTHING = 1_000;

/** The query of the timeline for a range. The server computes the begin of a range that ends now. */
export function timelineRange({ range = '1h', from, to }: RangeSearch) {
  const isFixed = from !== undefined && to !== undefined;
  const { value, step } = RANGES.find((one) => one.value === range) ?? RANGES[1];
  return {
    isFixed,
    key: isFixed ? `${from} ${to}` : range,
    query: isFixed ? { from, to } : { range: value, step: Number(step) },
  };
}

/** Numbers of a range; read repeatedly when the range ends now. */
export function numbersQuery(search: RangeSearch) {
  const { key, query, isFixed } = timelineRange(search);
  return queryOptions({
    queryKey: ['timeline', key],
    queryFn: async ({ signal }): Promise<Numbers> => {
      const report = await answer(api.GET('/api/v1/timeline', { params: { query }, signal }));
      const numbers = numbersOf(report, serverNow());
      return isFixed ? ofPast(numbers, report) : numbers;
    },
    refetchInterval: ({ state }) => {
      if (isFixed) return false;
      return (state.data?.totals['received'] ?? 0) === 0 ? REFRESH_OF_NOTHING : REFRESH;
    },
    placeholderData: keepPreviousData,
  });
}

/**
 * The numbers of an answer; none if it has no group. A step that has not ended at `now` is left out of the
 * series, where it would look like a drop, and counts in the totals.
 */
export function numbersOf(report: Report, now: number): Numbers {
  const { totals = {}, series = {}, now: rates = {} } = report.groups[0] ?? {};
  const begin = Date.parse(report.from);
  const all = Math.max(0, ...Object.values(series).map((values) => values.length));
  const ended = Math.floor((now - begin) / (report.step * 1000));
  const count = Math.max(1, Math.min(all, ended));
  const times = Array.from(
    { length: Math.min(all, count) },
    (_, index) => begin + index * report.step * 1000,
  );
  const shown = Object.entries(series).map(([name, values]) => [name, values.slice(0, count)] as const);
  return { times, step: report.step, totals, series: Object.fromEntries(shown), rates };
}

/** Numbers of a past range: without present rates. */
export function ofPast(numbers: Numbers, { from, to }: Pick<Report, 'from' | 'to'>): Numbers {
  const seconds = Math.max(1, (Date.parse(to) - Date.parse(from)) / 1000);
  const averages = Object.entries(numbers.totals).map(([name, total]) => [name, (total ?? 0) / seconds]);
  return { ...numbers, rates: Object.fromEntries(averages), past: { from, to } };
}

/** Converts numbers per step into numbers per second. */
export function perSecond(values: readonly (number | null)[] | undefined, step: number): (number | null)[] {
  return (values ?? []).map((value) => (value === null ? null : value / step));
}

/** Tells whether a dead letter of a destination is still kept and can be sent again. */
export const keptDeadQuery = (destination: string) =>
  queryOptions({
    queryKey: ['deliveries', 'kept', destination],
    queryFn: async ({ signal }): Promise<boolean> => {
      const query = { destination, state: 'dead', limit: 1 } as const;
      const { data, next } = await answer(api.GET('/api/v1/deliveries', { params: { query }, signal }));
      return data.length > 0 || next !== null;
    },
    refetchInterval: 30_000,
  });
