import { median } from './processes.ts';

/** The measurements of one curve: several rounds for each value. */
export interface Curve {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  readonly points: readonly { readonly value: number; readonly micros: readonly number[] }[];
}

const [WIDTH, HEIGHT] = [560, 240];
const [LEFT, RIGHT, TOP, BOTTOM] = [56, 20, 40, 44];
/** Readable on light and on dark pages. */
const [INK, LINE] = ['#7d8590', '#2f81f7'];

/**
 * The picture of a curve: the medians as a line, the rounds as dots. The values stand on a logarithmic scale,
 * the cost begins at zero.
 */
export function drawCurve({ title, unit, points }: Curve): string {
  const values = points.map(({ value }) => Math.log(value));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const most = niceAbove(Math.max(...points.flatMap(({ micros }) => micros)));
  const x = (value: number) =>
    (LEFT + ((Math.log(value) - low) / (high - low)) * (WIDTH - LEFT - RIGHT)).toFixed(1);
  const y = (micros: number) => (HEIGHT - BOTTOM - (micros / most) * (HEIGHT - TOP - BOTTOM)).toFixed(1);
  const grid = [0, 0.5, 1].map((share) => {
    const at = y(most * share);
    return `<path d="M${LEFT} ${at}H${WIDTH - RIGHT}" stroke="${INK}" stroke-opacity=".3"/>${text(LEFT - 6, Number(at) + 4, String(most * share), 'end')}`;
  });
  const labels = points.map(({ value }) =>
    text(Number(x(value)), HEIGHT - BOTTOM + 16, value.toLocaleString('en'), 'middle'),
  );
  const dots = points.flatMap(({ value, micros }) =>
    micros.map((one) => `<circle cx="${x(value)}" cy="${y(one)}" r="2" fill="${LINE}" fill-opacity=".45"/>`),
  );
  const line = points.map(({ value, micros }) => `${x(value)} ${y(median(micros))}`).join('L');
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12">`,
    `<title>${title}: microseconds of processor time for one delivery</title>`,
    text(LEFT, 16, title, 'start', 600),
    text(LEFT, 31, 'µs of processor time for one delivery', 'start'),
    ...grid,
    ...labels,
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, unit, 'middle'),
    `<path d="M${line}" fill="none" stroke="${LINE}" stroke-width="2"/>`,
    ...dots,
    '</svg>\n',
  ].join('\n');
}

function text(x: number, y: number, said: string, anchor: 'start' | 'middle' | 'end', weight = 400): string {
  return `<text x="${x}" y="${y}" fill="${INK}" text-anchor="${anchor}" font-weight="${weight}">${said}</text>`;
}

/** The next 1, 2 or 5 with zeros. */
function niceAbove(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * ([1, 2, 5, 10].find((step) => step * unit >= value) ?? 10);
}
