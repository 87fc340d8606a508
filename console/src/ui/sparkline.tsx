import './sparkline.css';

interface SparklineProps {
  readonly values: readonly number[];
  readonly tone?: 'water' | 'mute';
}

/** The shape of a series without axes; the number beside it says the value. */
export function Sparkline({ values, tone = 'water' }: SparklineProps) {
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
    </svg>
  );
}

function height(value: number, top: number): number {
  return top === 0 ? 19 : 19 - (value / top) * 18;
}
