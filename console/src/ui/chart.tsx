import 'uplot/dist/uPlot.min.css';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import { serverNow } from '../api/server-time.ts';
import { labelShades, paintShades, type Shade, type ShadeColours } from './chart-shades.ts';
import { clock, clockOfDay, dayOf, type Zone } from './format.ts';
import { usePreferences } from './preferences.ts';
import type { Tone } from './state-mark.tsx';
import './chart.css';

export interface ChartSeries {
  readonly label: string;
  /** One value per time; `null` where nothing is known. */
  readonly values: readonly (number | null)[];
  readonly tone: Tone;
  /** Lengths of strokes and gaps: lines differ by more than their colour. */
  readonly dash?: readonly number[];
  readonly isFilled?: boolean;
}

interface ChartProps {
  readonly title: string;
  /** Unit of the numbers: "per second, log scale". */
  readonly unit: string;
  /** Milliseconds, ascending. */
  readonly times: readonly number[];
  readonly series: readonly ChartSeries[];
  readonly format: (value: number) => string;
  readonly isLog?: boolean;
  /** Charts of one group share their cursor. */
  readonly group: string;
  /**
   * Shaded times. Their labels must also stand beside the chart as text, because the canvas is not
   * accessible.
   */
  readonly shades?: readonly Shade[];
  /** Called with a range that was selected with the pointer, in milliseconds. */
  readonly onZoom?: (from: number, to: number) => void;
}

const HEIGHT = 196;
/** Bottom of the log scale, which has no zero: zero is drawn here. */
const FLOOR = 0.01;

/** Lines over time. Values at the cursor, or else the last ones, stand below. */
export function Chart(props: ChartProps) {
  const { title, unit, times, series } = props;
  const place = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  usePlot(place, props, setAt);
  return (
    <figure className="box chart">
      <figcaption className="chart-h">
        <h2>{title}</h2>
        <span className="dim">{unit}</span>
        <span className="chart-keys">
          {series.map(({ label, tone, dash }) => (
            <span key={label} className="key">
              <svg className={tone} viewBox="0 0 18 8" aria-hidden="true">
                <path d="M0 4H18" stroke="currentColor" strokeWidth="1.5" strokeDasharray={dash?.join(' ')} />
              </svg>
              <span className="soft">{label}</span>
            </span>
          ))}
        </span>
      </figcaption>
      <div className="plot">
        <div ref={place} className="plot-u" role="img" aria-label={`${title}, ${unit}`} />
        {series.every(({ values }) => values.every((value) => value === null)) && (
          <p className="plot-none dim">
            Nothing to draw yet: the first point stands here when its time is over.
          </p>
        )}
      </div>
      <Values {...props} index={at ?? times.length - 1} />
    </figure>
  );
}

function Values({ times, series, format, index }: ChartProps & { readonly index: number }): ReactNode {
  const { zone } = usePreferences();
  const time = times[index];
  return (
    <div className="rowx num dim chart-at">
      <span>{time === undefined ? ' ' : clockOfDay(time, serverNow(), zone).replace(/\.\d{3}/, '')}</span>
      {series.map(({ label, values }) => {
        const value = values[index];
        return (
          <span key={label}>
            {label} <b>{value === undefined || value === null ? '–' : format(value)}</b>
          </span>
        );
      })}
    </div>
  );
}

/**
 * Keeps a plot of the data in `place`; it is made anew when the theme changes, because a canvas knows no
 * variables.
 */
function usePlot(
  place: React.RefObject<HTMLDivElement | null>,
  props: ChartProps,
  onCursor: (index: number | null) => void,
): void {
  const plot = useRef<uPlot>(undefined);
  const { theme, zone } = usePreferences();
  const latest = useRef(props);
  latest.current = props;
  const shape = props.series.map(({ label }) => label).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme decides the colours, the shape which lines there are.
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const made = new uPlot(
      options(element, latest.current, { onCursor, zone, shades: () => latest.current.shades ?? [] }),
      dataOf(latest.current),
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [theme, zone, shape]);
  useEffect(() => plot.current?.setData(dataOf(props)), [props]);
}

function dataOf({ times, series, isLog }: ChartProps): uPlot.AlignedData {
  const floor = (value: number | null): number | null =>
    isLog && value !== null ? Math.max(value, FLOOR) : value;
  return [times.map((time) => time / 1000), ...series.map(({ values }) => values.map(floor))];
}

interface PlotContext {
  readonly onCursor: (index: number | null) => void;
  readonly zone: Zone;
  /** Read when the plot is painted. */
  readonly shades: () => readonly Shade[];
}

function options(element: HTMLElement, props: ChartProps, context: PlotContext): uPlot.Options {
  const { onCursor, zone, shades } = context;
  const { series, isLog = false, format, group, onZoom } = props;
  const ink = colour(element, '--ink-3');
  const line = colour(element, '--line');
  const shadeColours = shadeColoursOf(element);
  const axis = { stroke: ink, ticks: { show: false }, font: `11px ${getComputedStyle(element).fontFamily}` };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { sync: { key: group }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: {
      x: { time: true },
      y: isLog ? { distr: 3, log: 10 } : { range: (_, __, top) => [0, top * 1.15 || 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 80,
        values: (_, seconds) =>
          tickTexts(
            seconds.map((at) => at * 1000),
            zone,
          ),
      },
      {
        ...axis,
        size: 56,
        grid: { stroke: line, width: 1, ...(isLog ? { filter: decades } : {}) },
        values: (_, values) => values.map((value) => (value === null ? '' : format(value))),
      },
    ],
    series: [{}, ...series.map((one) => seriesOptions(element, one))],
    hooks: {
      drawClear: [(plot) => paintShades(plot, shades(), shadeColours)],
      draw: [(plot) => labelShades(plot, shades(), shadeColours)],
      setCursor: [({ cursor }) => onCursor(cursor.idx ?? null)],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 4) onZoom?.(plot.posToVal(left, 'x') * 1000, plot.posToVal(left + width, 'x') * 1000);
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        },
      ],
    },
  };
}

/** Labels of times; the first of each day other than today has its day below it. */
function tickTexts(times: readonly number[], zone: Zone): string[] {
  const days = times.map((time) => dayOf(time, zone));
  const today = dayOf(serverNow(), zone);
  return times.map((time, index) => {
    const isNamed = days[index] !== (days[index - 1] ?? today);
    return `${clock(time, zone, { isShort: true })}${isNamed ? `\n${days[index]}` : ''}`;
  });
}

function seriesOptions(element: HTMLElement, { label, tone, dash, isFilled }: ChartSeries): uPlot.Series {
  const stroke = colour(element, `--${tone}`);
  return {
    label,
    stroke,
    width: 1.5,
    points: { show: isLonely },
    ...(dash === undefined ? {} : { dash: [...dash] }),
    ...(isFilled ? { fill: stroke.replace('rgb(', 'rgba(').replace(')', ', 0.1)') } : {}),
  };
}

function shadeColoursOf(element: HTMLElement): ShadeColours {
  return {
    fill: colour(element, '--bad-tint'),
    ink: colour(element, '--bad'),
    font: `${11 * devicePixelRatio}px ${getComputedStyle(element).fontFamily}`,
  };
}

/** Splits of a log scale: only powers of ten get a line. */
function decades(_: uPlot, splits: number[]): (number | null)[] {
  return splits.map((split) => (Number.isInteger(Math.log10(split)) ? split : null));
}

/** Tells whether a point has no neighbour: it is drawn as a dot, because a line needs two points. */
function isLonely({ data }: uPlot, index: number): boolean {
  return (data[index] ?? []).filter((value) => value !== null && value !== undefined).length < 3;
}

/** A colour of the design tokens in the theme of `element`, as the canvas understands it. */
function colour(element: HTMLElement, token: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${token})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
