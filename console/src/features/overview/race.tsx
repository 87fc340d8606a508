import type { CSSProperties } from 'react';
import type { Status } from '../../api/queries.ts';
import { duration, exactNumber, plural, rate, shortNumber } from '../../ui/format.ts';
import { Sparkline } from '../../ui/sparkline.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { type Place, PlaceLink, SideAbout, type SidePlace } from './place.tsx';
import type { Numbers } from './queries.ts';
import { channel, flowSeconds, HEIGHT, outlets, type RaceRates, WIDTH } from './race-geometry.ts';
import { RacePhone } from './race-phone.tsx';
import { LedgerSums } from './sums.tsx';
import './race.css';

interface RaceProps {
  readonly numbers: Numbers;
  readonly status: Status;
}

/** Draws the course of events from present rates, with both sums of the ledger below. */
export function Race({ numbers, status }: RaceProps) {
  const rates = ratesOf(numbers);
  const isDry = Object.values(status.sources).every(({ received }) => received === 0);
  const { stations, sides } = placesOf(numbers, status);
  return (
    <section className={`box race bleed ${isDry ? 'dry' : ''}`} aria-label="The way of events">
      <div className="race-st">
        {stations.map((station) => (
          <PlaceLink key={station.id} place={station}>
            <span className="lab">
              {station.label}
              {station.id === 'owed' && (
                <span className="dim"> to {plural(Object.keys(status.lanes).length, 'destination')}</span>
              )}
            </span>
            <span className="val">
              <b title={exactNumber(station.count)}>{shortNumber(station.count)}</b>
              <span className="soft">{station.about}</span>
            </span>
            <Sparkline values={(numbers.series[station.id] ?? []).filter((value) => value !== null)} />
          </PlaceLink>
        ))}
      </div>
      <ChannelDrawing rates={rates} />
      <div className="race-out">
        {sides.map((side) => (
          <SideLink key={side.id} side={side} />
        ))}
        <Took numbers={numbers} />
      </div>
      <RacePhone stations={stations} sides={sides} rates={rates} />
      <LedgerSums status={status} totals={numbers.totals} isPast={numbers.past !== undefined} />
    </section>
  );
}

/** Left edge of each outlet's words, in hundredths of the width. */
const LEFT: Readonly<Record<string, number>> = {
  discarded: 6.7,
  duplicates: 18.7,
  skipped: 34.2,
  pending: 55.2,
  dead: 69,
};

function SideLink({ side }: { readonly side: SidePlace }) {
  const { id, state, label, count } = side;
  return (
    <PlaceLink place={side} style={{ left: `${LEFT[id]}%` }}>
      <span className="lab">
        <StateMark state={state} label={label} isNone={count === 0} />
      </span>
      <b title={exactNumber(count)}>{shortNumber(count)}</b> <SideAbout side={side} />
    </PlaceLink>
  );
}

function Took({ numbers: { totals } }: { readonly numbers: Numbers }) {
  return (
    <a href="#latency" style={{ left: '83.5%' }}>
      <span className="lab">
        <StateMark state="delivered" label="Time it took" isNone />
      </span>
      <b>p50 {milliseconds(totals['deliveryP50'])}</b>{' '}
      <span className="dim">p99 {milliseconds(totals['deliveryP99'])}</span>
    </a>
  );
}

function milliseconds(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : duration(value);
}

/** Lengths of strokes and gaps of the flow's lines. All differ, so that no pattern is visible. */
const DASHES = [
  '70 110 26 140',
  '120 190 44 96',
  '38 150 96 170',
  '160 120 30 210',
  '54 176 88 92',
  '100 150 40 190',
];

function ChannelDrawing({ rates }: { readonly rates: RaceRates }) {
  const { water, bed, edges, flows } = channel(rates);
  const seconds = flowSeconds(rates.received);
  return (
    <svg
      className="race-ch"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      style={{ '--flow': `${seconds}s` } as CSSProperties}
    >
      <path className="ch-bed" d={bed} />
      {outlets(rates).map(({ id, path, width, tone }) => (
        <g key={id}>
          <path className={`ch-out s-${tone}`} strokeWidth={width} d={path} />
          <path className={`ch-out-l s-${tone} ${seconds === 0 ? 'still' : ''}`} d={path} />
        </g>
      ))}
      <path className="ch-water" d={water} />
      {seconds > 0 &&
        flows.map((path, index) => (
          <path
            key={DASHES[index]}
            className="ch-flow"
            strokeDasharray={DASHES[index]}
            d={path}
            style={{ '--len': `${-lengthOf(DASHES[index] ?? '')}px` } as CSSProperties}
          />
        ))}
      <path className="ch-edge" d={edges[0]} />
      <path className="ch-edge" d={edges[1]} />
    </svg>
  );
}

/** Length of the whole pattern: moved by it, the lines look the same. */
function lengthOf(dash: string): number {
  return dash.split(' ').reduce((sum, part) => sum + Number(part), 0);
}

function ratesOf({ rates }: Pick<Numbers, 'rates'>): RaceRates {
  const of = (name: string): number => rates[name] ?? 0;
  return {
    received: of('received'),
    accepted: of('accepted'),
    owed: of('owed'),
    delivered: of('delivered'),
    discarded: of('discarded'),
    duplicates: of('duplicates'),
    skipped: of('skipped'),
    retrying: of('retrying'),
    dead: of('dead'),
  };
}

function placesOf({ totals, rates, past }: Numbers, { destinations, lanes }: Status) {
  const pending = Object.values(destinations).reduce((sum, one) => sum + one.pending, 0);
  const retrying = Object.values(lanes).reduce((sum, one) => sum + one.retrying, 0);
  const place = (id: string, label: string, to: Place['to']): Place => ({
    id,
    label,
    count: totals[id] ?? 0,
    about: past === undefined ? rate(rates[id] ?? 0) : `avg ${rate(rates[id] ?? 0)}`,
    to,
  });
  const waiting: SidePlace = {
    ...place('pending', 'Pending', '/destinations'),
    ...{ state: 'pending', count: pending, retrying },
  };
  const sides: SidePlace[] = [
    { ...place('discarded', 'Discarded', '/sources'), state: 'discarded' },
    { ...place('duplicates', 'Duplicate', '/sources'), state: 'duplicate' },
    { ...place('skipped', 'Skipped', '/destinations'), state: 'skipped' },
    // How much waited then is not known.
    ...(past === undefined ? [waiting] : []),
    { ...place('dead', 'Dead', '/destinations'), state: 'dead' },
  ];
  // Live shows what comes now; of a range of the past the stored events are shown.
  const range = past === undefined ? {} : { range: past };
  return {
    stations: [
      { ...place('received', 'Received', '/live'), ...range },
      { ...place('accepted', 'Accepted', '/events'), ...range },
      place('owed', 'Owed', '/destinations'),
      place('delivered', 'Delivered', '/destinations'),
    ],
    sides,
  };
}
