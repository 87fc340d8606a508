import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';
import { statusQuery } from '../../api/queries.ts';
import { serverNow } from '../../api/server-time.ts';
import { Chart } from '../../ui/chart.tsx';
import { clock, dateTime, duration, shortNumber, type Zone } from '../../ui/format.ts';
import { usePreferences } from '../../ui/preferences.ts';
import { StateMark } from '../../ui/state-mark.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { isTroubled, troubledSince } from '../destinations/destination-state.tsx';
import { isWhole, type Outage, outagesQuery, outagesUntil, outageText, shadesOf } from './failures.ts';
import { type Numbers, perSecond } from './queries.ts';

const route = getRouteApi('/shell/');

interface ChartsProps {
  readonly numbers: Numbers;
}

/**
 * Two charts of one range with a shared cursor, and the outages in it. Dragging over a chart selects the
 * page's range.
 */
export function Charts({ numbers: { times, step, series } }: ChartsProps) {
  const navigate = route.useNavigate();
  const zoom = (from: number, to: number): void =>
    void navigate({
      search: (before) => ({ ...before, from: new Date(from).toISOString(), to: new Date(to).toISOString() }),
    });
  const begin = times[0] ?? 0;
  const end = (times.at(-1) ?? 0) + step * 1000;
  const outages = useOutages(begin, end);
  const partly = useMemo(() => outages.filter((one) => !isWhole(one, { begin, end })), [outages, begin, end]);
  const shades = useMemo(() => shadesOf(partly), [partly]);
  const whole = outages.filter((one) => !partly.includes(one));
  return (
    <>
      <div className="two" id="latency">
        <Chart
          title="Deliveries by outcome"
          unit="per second, log scale"
          group="overview"
          isLog
          times={times}
          shades={shades}
          format={(value) => shortNumber(Number(value.toPrecision(2)))}
          onZoom={zoom}
          series={[
            { label: 'delivered', tone: 'ok', values: perSecond(series['delivered'], step) },
            { label: 'retrying', tone: 'warn', values: perSecond(series['retrying'], step), dash: [5, 3] },
            { label: 'dead', tone: 'bad', values: perSecond(series['dead'], step), dash: [1.5, 3] },
          ]}
        />
        <Chart
          title="Latency, received to delivered"
          unit="log scale"
          group="overview"
          isLog
          times={times}
          shades={shades}
          format={(value) => (value < 0.1 ? '0' : duration(value))}
          onZoom={zoom}
          series={[
            { label: 'p50', tone: 'water', values: series['deliveryP50'] ?? [], isFilled: true },
            { label: 'p99', tone: 'water', values: series['deliveryP99'] ?? [], dash: [5, 3] },
          ]}
        />
      </div>
      <Outages outages={partly} />
      <WholeOutages names={[...new Set(whole.map(({ destination }) => destination))]} />
    </>
  );
}

/**
 * Outages of the page's range until `end`. An outage of a destination that still fails is extended to the
 * present end of the range.
 */
function useOutages(begin: number, end: number): readonly Outage[] {
  const search = route.useSearch();
  const { data: found } = useQuery(outagesQuery(search));
  const { data: status } = useQuery(statusQuery);
  const isFixed = search.to !== undefined;
  return useMemo(() => {
    const lanes = Object.entries(isFixed ? {} : (status?.lanes ?? {}));
    const troubled = lanes.filter(([, lane]) => isTroubled(lane));
    const failing = new Map(
      troubled.map(([name, lane]) => [name, Date.parse(troubledSince(lane) ?? '') || end]),
    );
    return outagesUntil(found ?? [], { begin, end, failing });
  }, [found, status, begin, end, isFixed]);
}

/**
 * Names destinations that failed during the whole range. They are not shaded: the shade would cover
 * everything.
 */
function WholeOutages({ names }: { readonly names: readonly string[] }) {
  if (names.length === 0) return null;
  const [first, ...others] = names.map((name) => visibleLine(name, 60));
  const more = others.length > 3 ? `${others.length} others` : others.join(', ');
  return (
    <p className="soft">
      <StateMark state="failing" label="Not shaded:" /> for all of this range requests failed and nothing was
      delivered to {first}
      {more !== '' && ` and ${more}`}.
    </p>
  );
}

/** The shaded times in words. */
function Outages({ outages }: { readonly outages: readonly Outage[] }) {
  const { zone } = usePreferences();
  if (outages.length === 0) return null;
  const first = Math.min(...outages.map(({ from }) => from));
  return (
    <p className="soft">
      <StateMark state="failing" label="Shaded:" /> requests failed and nothing was delivered to{' '}
      {outageText(outages, (time) => timeText(time, zone, serverNow() - first > DAY))}.
    </p>
  );
}

const DAY = 86_400_000;

/** A time such as 14:18, with the day before it if the range covers several days. */
function timeText(time: number, zone: Zone, hasDay: boolean): string {
  const at = clock(time, zone, { isShort: true });
  return hasDay ? `${dateTime(time, zone).split(',')[0]}, ${at}` : at;
}
