import { exactNumber, shortNumber } from '../../ui/format.ts';
import { StateMark, toneOf } from '../../ui/state-mark.tsx';
import { type Place, PlaceLink, SideAbout, type SidePlace } from './place.tsx';
import { type RaceRates, widthOf } from './race-geometry.ts';
import './race.css';

interface RacePhoneProps {
  readonly stations: readonly Place[];
  readonly sides: readonly SidePlace[];
  readonly rates: RaceRates;
}

/** Heights of a row, as the style sheet has them. */
const STATION = 56;
const SIDE = 44;
const MIDDLE = 26;
/** Outlets below each station. */
const BELOW: Readonly<Record<string, readonly string[]>> = {
  received: ['discarded', 'duplicates'],
  accepted: ['skipped'],
  owed: ['pending', 'dead'],
};

/** The race on a phone, from top to bottom. */
export function RacePhone({ stations, sides, rates }: RacePhoneProps) {
  const rows = stations.flatMap((place): Row[] => [
    { place, width: widthOf(rates[place.id as keyof RaceRates]) },
    ...sides
      .filter(({ id }) => BELOW[place.id]?.includes(id))
      .map((side) => ({ place: side, side, width: widthOf(rates[rateOf(side.id)]) })),
  ]);
  const height = 4 + rows.reduce((sum, row) => sum + heightOf(row), 0);
  let top = 4;
  const placed = rows.map((row) => {
    const at = top;
    top += heightOf(row);
    return { ...row, at, middle: (at + top) / 2 };
  });
  return (
    <div className="race-v">
      <svg viewBox={`0 0 72 ${height}`} preserveAspectRatio="xMinYMin meet" aria-hidden="true">
        <path className="ch-bed" d={`M6,0 H46 V${height} H6Z`} />
        {placed.map(({ side, width, middle }) => {
          if (side === undefined) return null;
          const path = `M${MIDDLE},${middle - 18} C${MIDDLE},${middle} 44,${middle} 68,${middle}`;
          const tone = toneOf(side.retrying === undefined ? side.state : 'retrying', 1);
          return (
            <g key={side.id}>
              <path className={`ch-out s-${tone}`} strokeWidth={width} d={path} />
              <path className={`ch-out-l s-${tone} still`} d={path} />
            </g>
          );
        })}
        {placed
          .filter(({ side }) => side === undefined)
          .map(({ place, at, width }, index, all) => (
            <rect
              key={place.id}
              className="ch-water ch-down"
              x={MIDDLE - width / 2}
              width={width}
              y={index === 0 ? 0 : at}
              height={(all[index + 1]?.at ?? height) - (index === 0 ? 0 : at)}
            />
          ))}
      </svg>
      <ol>
        {placed.map(({ place, side }) => (
          <li key={place.id} className={side === undefined ? '' : 'o'}>
            <PlaceLink place={place} className={side === undefined ? 'soft med' : ''}>
              {side === undefined ? (
                place.label
              ) : (
                <StateMark state={side.state} label={place.label} isNone={place.count === 0} />
              )}
            </PlaceLink>
            <span className="r">
              <b title={exactNumber(place.count)}>{shortNumber(place.count)}</b>
              <br />
              {side === undefined ? <span className="dim">{place.about}</span> : <SideAbout side={side} />}
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

interface Row {
  readonly place: Place;
  /** Present when the row is an outlet. */
  readonly side?: SidePlace;
  readonly width: number;
}

function heightOf({ side }: Row): number {
  return side === undefined ? STATION : SIDE;
}

function rateOf(side: string): keyof RaceRates {
  return side === 'pending' ? 'retrying' : (side as keyof RaceRates);
}
