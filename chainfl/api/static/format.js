// Numbers, amounts and names for people: each kind is written in one way on every page, with its unit.

export const DASH = "–";
export const count = (number) => number.toLocaleString("en");
export const percent = (fraction, digits = 1) => `${(100 * fraction).toFixed(digits)} %`;
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
export const short = (text, head = 6, tail = 4) => (text.length <= head + tail + 3 ? text : `${text.slice(0, head)}…${text.slice(-tail)}`);

// Ether: four digits after the point, as in the sentences of a round; what is smaller than that keeps three digits.
export function ether(wei) {
  const value = Number(BigInt(wei)) / 1e18;
  if (value === 0) return "0";
  if (Math.abs(value) < 1e-4) return value.toExponential(2);
  return value.toLocaleString("en", { minimumFractionDigits: 4, maximumFractionDigits: 4 });
}
// Where the unit stands beside the number, dust is counted in wei: nobody reads 1.00e-18.
export function eth(wei) {
  const amount = BigInt(wei);
  return amount > -1000000000n && amount < 1000000000n && amount !== 0n ? `${count(Number(amount))} wei` : `${ether(amount)} ETH`;
}

// Losses and distances: four digits that count.
export function loss(value) {
  if (value === null || value === undefined) return DASH;
  if (value === 0) return "0";
  return Math.abs(value) < 1e-4 || Math.abs(value) >= 1e5 ? value.toExponential(2) : value.toPrecision(4);
}

// What validators measure under a rule. The chain holds missed accuracy, so that less is better as with losses.
export function measureOf(rule) {
  if (rule !== "softmax-accuracy") return { name: "loss", better: "Lower", of: (value) => value, show: loss };
  const known = (value) => value !== null && value !== undefined;
  return {
    name: "accuracy", better: "Higher",
    of: (missed) => (known(missed) ? 1 - missed : null),
    show: (missed) => (known(missed) ? percent(1 - missed, 2) : DASH),
  };
}

export const when = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");
export const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

export function duration(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
