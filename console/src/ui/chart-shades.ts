import type uPlot from 'uplot';

/** A part of a chart's time that stands out, with a word for why. Milliseconds. */
export interface Shade {
  readonly from: number;
  readonly to: number;
  readonly label: string;
}

export interface ShadeColours {
  readonly fill: string;
  readonly ink: string;
  readonly font: string;
}

/**
 * Pixels of the screen: the narrowest shade that can be seen, the bar above it, the room around its words.
 */
const NARROWEST = 3;
const BAR = 2;
const MARGIN = 6;

/** Paints the ground of the shades, below the lines. */
export function paintShades(plot: uPlot, shades: readonly Shade[], { fill }: ShadeColours): void {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const { left, width } of placesOf(plot, shades)) {
    ctx.fillStyle = fill;
    ctx.fillRect(left, bbox.top, width, bbox.height);
  }
  ctx.restore();
}

/**
 * Draws marks that need no colour over the lines: a bar on top of each shade, which a point at the top would
 * hide, and a label at its right end if there is room.
 */
export function labelShades(plot: uPlot, shades: readonly Shade[], { fill, ink, font }: ShadeColours): void {
  const { ctx, bbox } = plot;
  const margin = MARGIN * devicePixelRatio;
  const line = 16 * devicePixelRatio;
  ctx.save();
  ctx.font = font;
  ctx.textAlign = 'right';
  ctx.textBaseline = 'middle';
  for (const { left, width, label } of placesOf(plot, shades)) {
    ctx.fillStyle = ink;
    ctx.fillRect(left, bbox.top, width, BAR * devicePixelRatio);
    const room = ctx.measureText(label).width + margin;
    if (room + margin > width) continue;
    const right = left + width - margin / 2;
    const top = bbox.top + bbox.height / 6;
    ctx.fillStyle = fill;
    ctx.fillRect(right - room, top - line / 2, room, line);
    ctx.fillStyle = ink;
    ctx.fillText(label, right - margin / 2, top);
  }
  ctx.restore();
}

interface Place {
  readonly left: number;
  readonly width: number;
  readonly label: string;
}

/**
 * Positions of the shades, in pixels of the canvas. A point stands at the begin of its step, and a step is
 * shaded around its point.
 */
function placesOf(plot: uPlot, shades: readonly Shade[]): Place[] {
  const { bbox, data } = plot;
  const [first = 0, second = first] = data[0];
  const half = (second - first) / 2;
  const end = bbox.left + bbox.width;
  return shades.flatMap(({ from, to, label }) => {
    const at = (time: number) => plot.valToPos(time / 1000 - half, 'x', true);
    const left = Math.max(bbox.left, at(from));
    const right = Math.min(end, Math.max(at(to), left + NARROWEST * devicePixelRatio));
    return left >= end || right <= bbox.left ? [] : [{ left, width: right - left, label }];
  });
}
