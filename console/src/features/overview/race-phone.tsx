import { Link } from '@tanstack/react-router';
import { exactNumber, shortNumber } from '../../ui/format.ts';
import { Icon } from '../../ui/icons.tsx';
import type { Place } from './place.ts';
import { type RaceRates, widthOf } from './race-geometry.ts';

interface RacePhoneProps {
  readonly stations: readonly Place[];
  readonly sides: readonly Place[];
  readonly rates: RaceRates;
}

/** Heights of a row, as the style sheet has them. */
const STATION = 56;
const SIDE = 44;
const MIDDLE = 26;
/** Which outlets leave below which station. */
const BELOW: Readonly<Record<string, readonly string[]>> = {
  received: ['discarded', 'duplicates'],
  accepted: ['skipped'],
  owed: ['pending', 'dead'],
};

/** The race of a phone: it runs down. */
export function RacePhone({ stations, sides, rates }: RacePhoneProps) {
  const rows = stations.flatMap((station) => [
    { ...station, isSide: false, width: widthOf(rates[station.id as keyof RaceRates]) },
    ...sides
      .filter(({ id }) => BELOW[station.id]?.includes(id))
      .map((side) => ({ ...side, isSide: true, width: widthOf(rates[rateOf(side.id)]) })),
  ]);
  const height = 4 + rows.reduce((sum, { isSide }) => sum + (isSide ? SIDE : STATION), 0);
  let top = 4;
  const placed = rows.map((row) => {
    const at = top;
    top += row.isSide ? SIDE : STATION;
    return { ...row, at, middle: (at + top) / 2 };
  });
  return (
    <div className="race-v">
      <svg viewBox={`0 0 72 ${height}`} preserveAspectRatio="xMinYMin meet" aria-hidden="true">
        <path className="ch-bed" d={`M6,0 H46 V${height} H6Z`} />
        {placed
          .filter(({ isSide }) => isSide)
          .map(({ id, tone, width, middle }) => {
            const path = `M${MIDDLE},${middle - 18} C${MIDDLE},${middle} 44,${middle} 68,${middle}`;
            return (
              <g key={id}>
                <path className={`ch-out s-${tone}`} strokeWidth={width} d={path} />
                <path className={`ch-out-l s-${tone} still`} d={path} />
              </g>
            );
          })}
        {placed
          .filter(({ isSide }) => !isSide)
          .map(({ id, at, width }, index, all) => (
            <rect
              key={id}
              className="ch-water ch-down"
              x={MIDDLE - width / 2}
              width={width}
              y={index === 0 ? 0 : at}
              height={(all[index + 1]?.at ?? height) - (index === 0 ? 0 : at)}
            />
          ))}
      </svg>
      <ol>
        {placed.map(({ id, isSide, label, to, tone, icon, count, about }) => (
          <li key={id} className={isSide ? 'o' : ''}>
            <Link to={to} className={isSide ? `st ${tone}` : 'soft med'}>
              {isSide && <Icon name={icon} />}
              {label}
            </Link>
            <span className="r">
              <b title={exactNumber(count)}>{shortNumber(count)}</b>
              <br />
              <span className="dim">{about}</span>
            </span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function rateOf(side: string): keyof RaceRates {
  return side === 'pending' ? 'retrying' : (side as keyof RaceRates);
}
