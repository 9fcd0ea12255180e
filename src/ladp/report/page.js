/* Reading values off the page: tips, a cursor on curves, cells of heatmaps. Without this script all numbers are in the tables. */
(() => {
  const tip = document.getElementById("tip");
  const shape = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const hide = () => { tip.hidden = true; };
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 16 + width > innerWidth ? x - 16 - width : x + 16;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = Math.max(8, Math.min(y - height / 2, innerHeight - height - 8)) + "px";
  };
  const place = (svg, event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const screen = (svg, x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());

  /* The browser's own tip for a picture would cover ours: keep the words for screen readers only. */
  for (const svg of document.querySelectorAll("svg.chart")) {
    const words = [...svg.querySelectorAll(":scope > title, :scope > desc")];
    svg.setAttribute("aria-label", words.map((word) => word.textContent).join(". "));
    words.forEach((word) => word.remove());
  }

  for (const one of document.querySelectorAll("[data-tip]")) {
    one.addEventListener("pointermove", (event) => show(one.dataset.tip, event.clientX, event.clientY));
    one.addEventListener("focus", () => {
      const box = one.getBoundingClientRect();
      show(one.dataset.tip, box.right, box.top + box.height / 2);
    });
    one.addEventListener("pointerleave", hide);
    one.addEventListener("blur", hide);
  }

  for (const svg of document.querySelectorAll("[data-curves]")) {
    const { top, bottom, lines } = JSON.parse(svg.dataset.curves);
    const rounds = [...new Map(lines.flatMap((line) => line.at.map((at) => [at[0], at[1]])))].sort((a, b) => a[0] - b[0]);
    const cursor = shape("g", { "pointer-events": "none" });
    svg.append(cursor);
    let now = rounds.length - 1;
    const clear = () => { cursor.replaceChildren(); hide(); };
    const draw = () => {
      const [round, x] = rounds[now];
      const read = lines.map((line) => ({ line, at: line.at.find((at) => at[0] === round) })).filter((one) => one.at);
      read.sort((a, b) => a.at[2] - b.at[2]);
      cursor.replaceChildren(shape("line", { x1: x, x2: x, y1: top, y2: bottom, class: "cursor" }),
        ...read.map((one) => shape("circle", { cx: x, cy: one.at[2], r: 4, class: "f" + one.line.colour })));
      const at = screen(svg, x, (top + bottom) / 2);
      show(["round " + round, ...read.map((one) => one.line.name + ":  " + one.at[3])].join("\n"), at.x, at.y);
    };
    svg.addEventListener("pointermove", (event) => {
      const x = place(svg, event).x;
      if (x > rounds[rounds.length - 1][1] + 12) return clear();
      now = rounds.reduce((best, one, index) => Math.abs(one[1] - x) < Math.abs(rounds[best][1] - x) ? index : best, 0);
      draw();
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -rounds.length, End: rounds.length }[event.key];
      if (event.key === "Escape") clear();
      if (!step) return;
      event.preventDefault();
      now = Math.max(0, Math.min(rounds.length - 1, now + step));
      draw();
    });
    svg.addEventListener("pointerleave", clear);
    svg.addEventListener("blur", clear);
  }

  for (const svg of document.querySelectorAll("[data-heat]")) {
    const { left, row, width, layers, rounds, values } = JSON.parse(svg.dataset.heat);
    const frame = shape("rect", { class: "outline", "pointer-events": "none", width, height: row - 2, visibility: "hidden" });
    svg.append(frame);
    const clear = () => { frame.setAttribute("visibility", "hidden"); hide(); };
    svg.addEventListener("pointermove", (event) => {
      const at = place(svg, event);
      const column = Math.floor((at.x - left) / width), line = Math.floor(at.y / row);
      if (values[line]?.[column] === undefined) return clear();
      frame.setAttribute("x", left + column * width);
      frame.setAttribute("y", line * row);
      frame.setAttribute("visibility", "visible");
      const value = values[line][column];
      const said = value === null ? "not recorded" : value === 0 ? "no noise" : "noise norm " + value;
      show(layers[line] + "\nround " + rounds[column] + ":  " + said, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", clear);
  }
})();
