import './sparkline.css';

interface SparklineProps {
  readonly values: readonly number[];
  readonly tone?: 'water' | 'mute';
  /** Marks values of a time of failure: a bar below the line. */
  readonly failing?: readonly boolean[];
}

/** The shape of a series without axes; the number beside it says the value. */
export function Sparkline({ values, tone = 'water', failing = [] }: SparklineProps) {
  const top = Math.max(...values, 0);
  const step = 100 / Math.max(values.length - 1, 1);
  const points = values.map(
    (value, index) => `${(index * step).toFixed(1)},${height(value, top).toFixed(1)}`,
  );
  const line = points.length > 1 ? `M${points.join(' L')}` : 'M0,19 L100,19';
  return (
    <svg className={`spark ${tone}`} viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
      <path className="a" d={`${line} L100,20 L0,20Z`} />
      <path className="l" d={line} />
      <path
        className="f"
        d={failing.map((isBad, index) => (isBad ? barAt(index * step, step) : '')).join('')}
      />
    </svg>
  );
}

/** A bar around a point, inside the drawing. */
function barAt(middle: number, step: number): string {
  const left = Math.max(0, middle - step / 2);
  const right = Math.min(100, middle + step / 2);
  return `M${left.toFixed(1)},17H${right.toFixed(1)}V20H${left.toFixed(1)}Z`;
}

function height(value: number, top: number): number {
  return top === 0 ? 19 : 19 - (value / top) * 18;
}
